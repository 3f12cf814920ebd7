"""Triton comes first: PyTorch from PyPI brings it on Linux, and its import after TensorFlow's ends the process."""

import contextlib

with contextlib.suppress(ImportError):
    import triton  # noqa: F401

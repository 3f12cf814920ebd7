"""Triton comes first: PyTorch from PyPI brings it on Linux, and its import after TensorFlow's ends the process."""

import contextlib
from pathlib import Path

import pytest

with contextlib.suppress(ImportError):
    import triton  # noqa: F401


@pytest.fixture
def cli(tmp_path: Path):
    """The command line with the toy experiments, in a folder of its own."""
    from toy_cli import Cli

    return Cli(tmp_path)

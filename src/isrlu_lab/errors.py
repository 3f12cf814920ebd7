"""What the command line turns into a line for a person."""

import sys

_EXTRAS = {
    **dict.fromkeys(("jax", "jaxlib", "flax"), "jax"),
    "keras": "keras",
    **dict.fromkeys(("onnx", "onnxruntime"), "onnx"),
    "ray": "ray",
}
_APART = ("tensorboard", "tensorflow", "timm", "transformers")  # in no extra


class UserError(Exception):
    """A mistake or a lack that the user can mend: `str()` of it is one clear line, shown without a traceback."""


def complain(message: str) -> int:
    """Show the line; returns the exit code of a mistake."""
    print(f"isrlu: {message}", file=sys.stderr)
    return 2


def lacking(error: ModuleNotFoundError) -> str | None:
    """What is to be installed, in one line; None where a module of this package is missing, which is a bug.

    >>> lacking(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "the package torch is not installed: pip install 'isrlu[paper]'"
    >>> lacking(ModuleNotFoundError("No module named 'onnx'", name="onnx"))
    "the package onnx is not installed: pip install 'isrlu[onnx]'"
    """
    package = (error.name or "isrlu").partition(".")[0]
    if package in ("isrlu", "isrlu_lab"):
        return None
    if not str(error).startswith("No module named"):
        return str(error)
    wanted = package if package in _APART else f"'isrlu[{_EXTRAS.get(package, 'paper')}]'"
    return f"the package {package} is not installed: pip install {wanted}"

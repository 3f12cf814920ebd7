"""Tells the user which package to install after a failed import."""

_EXTRAS = {
    **dict.fromkeys(("jax", "jaxlib", "flax"), "jax"),
    "keras": "keras",
    **dict.fromkeys(("onnx", "onnxruntime"), "onnx"),
    "ray": "ray",
    "triton": "gpu",
}
_IN_NO_EXTRA = ("tensorboard", "tensorflow", "timm", "transformers")
_OUR_PACKAGES = ("isrlu", "isrlu_lab")


def install_hint(error: ModuleNotFoundError) -> str | None:
    """One line that says what to install. None if the missing module is part of isrlu, which is a bug.

    >>> install_hint(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "the package torch is not installed: pip install 'isrlu[paper]'"
    >>> install_hint(ModuleNotFoundError("No module named 'onnx'", name="onnx"))
    "the package onnx is not installed: pip install 'isrlu[onnx]'"
    >>> install_hint(ModuleNotFoundError("No module named 'isrlu_lab.data'", name="isrlu_lab.data"))
    """
    package = (error.name or "isrlu").partition(".")[0]
    if package in _OUR_PACKAGES:
        return None
    if not str(error).startswith("No module named"):
        return str(error)
    wanted = package if package in _IN_NO_EXTRA else f"'isrlu[{_EXTRAS.get(package, 'paper')}]'"
    return f"the package {package} is not installed: pip install {wanted}"

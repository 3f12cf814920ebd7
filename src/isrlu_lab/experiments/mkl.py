"""MKL's vector functions through ctypes: vsInvSqrt, vsExp and vsTanh in mode EP, as in the paper's table 2.

The PyPI package `mkl` contains libmkl_rt. Nothing is linked against it. Without it, table 2 has no MKL column.
"""

import ctypes
import functools
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

EP = 3  # VML_EP, enhanced performance: about half of the significand bits are accurate
FUNCTIONS = {"InvSqrt": "vsInvSqrt", "Exp": "vsExp", "Tanh": "vsTanh"}


@functools.cache
def library() -> ctypes.CDLL | None:
    """libmkl_rt in mode EP on one thread; None if the package `mkl` is not installed."""
    path = _find()
    if path is None:
        return None
    mkl = ctypes.CDLL(str(path))
    mkl.MKL_Set_Num_Threads(1)
    mkl.vmlSetMode(EP)
    return mkl


def function(name: str) -> Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], None]:
    """One of `FUNCTIONS` as f(src, dst), for contiguous float32 arrays of the same size."""
    call = getattr(library(), FUNCTIONS[name])
    call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    call.restype = None

    def apply(src: npt.NDArray[np.float32], dst: npt.NDArray[np.float32]) -> None:
        call(src.size, src.ctypes.data, dst.ctypes.data)

    return apply


def version() -> str:
    """The installed version of MKL."""
    return importlib.metadata.version("mkl")


def _find() -> Path | None:
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    names = ("libmkl_rt.so", "mkl_rt.", "libmkl_rt.dylib")
    found = (Path(str(file.locate())).resolve() for file in files if file.name.startswith(names))
    return next((path for path in found if path.suffix != ".lib"), None)

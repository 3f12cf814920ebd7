"""ISRLU and ISRU for NumPy arrays, on SIMD kernels behind real ufuncs.

Every function broadcasts x and alpha and takes the keywords of NumPy's ufuncs (`out`, `where`, `dtype`, `casting`,
`order`, `subok`). `method` chooses how the inverse square root is obtained: full, approx, newton1, newton2, ieee,
kinney or table. float16, float32 and float64 are kept, integers become what `np.sqrt` makes of them, and ml_dtypes'
bfloat16 works where that package is installed.

>>> import numpy as np
>>> isrlu(np.float32([-np.inf, -1.0, 0.0, 2.0]))
array([-1.        , -0.70710677,  0.        ,  2.        ], dtype=float32)
"""

import math
from typing import Any

import numpy as np

from isrlu import _core
from isrlu._checks import check_alpha, check_method

__all__ = ["isrlu", "isrlu_grad", "isru", "isru_grad", "isru_sigmoid", "isru_sigmoid_grad", "rsqrt"]

_ufuncs = _core.ufuncs()

try:
    import ml_dtypes
except ImportError:  # no bfloat16 arrays can exist then
    pass
else:
    _core.register_bfloat16(_ufuncs, np.dtype(ml_dtypes.bfloat16))


def isrlu(x: Any, alpha: Any = 1.0, *, method: str = "full", **ufunc_keywords: Any) -> Any:
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0.

    >>> isrlu([-1.0, 2.0], alpha=[[0.0], [3.0]])
    array([[-1. ,  2. ],
           [-0.5,  2. ]])
    """
    return _call("isrlu", method, ufunc_keywords, x, alpha)


def isrlu_grad(x: Any, alpha: Any = 1.0, *, method: str = "full", **ufunc_keywords: Any) -> Any:
    """1 for x >= 0, (1 / sqrt(1 + alpha x^2))^3 for x < 0: the derivative of `isrlu`."""
    return _call("isrlu_grad", method, ufunc_keywords, x, alpha)


def isru(x: Any, alpha: Any = 1.0, *, method: str = "full", **ufunc_keywords: Any) -> Any:
    """x / sqrt(1 + alpha x^2): the stand-in for tanh.

    >>> isru([-1.0, 0.0, 1.0], alpha=3)
    array([-0.5,  0. ,  0.5])
    """
    return _call("isru", method, ufunc_keywords, x, alpha)


def isru_grad(x: Any, alpha: Any = 1.0, *, method: str = "full", **ufunc_keywords: Any) -> Any:
    """(1 / sqrt(1 + alpha x^2))^3: the derivative of `isru`."""
    return _call("isru_grad", method, ufunc_keywords, x, alpha)


def isru_sigmoid(x: Any, *, method: str = "full", **ufunc_keywords: Any) -> Any:
    """(1 + isru(x / 2)) / 2: the stand-in for the logistic sigmoid.

    >>> isru_sigmoid([-np.inf, 0.0, np.inf])
    array([0. , 0.5, 1. ])
    """
    return _call("isru_sigmoid", method, ufunc_keywords, x)


def isru_sigmoid_grad(x: Any, *, method: str = "full", **ufunc_keywords: Any) -> Any:
    """(1 / sqrt(1 + x^2 / 4))^3 / 4: the derivative of `isru_sigmoid`."""
    return _call("isru_sigmoid_grad", method, ufunc_keywords, x)


def rsqrt(x: Any, *, method: str = "full", **ufunc_keywords: Any) -> Any:
    """1 / sqrt(x).

    >>> rsqrt([0.0, 4.0, np.inf])
    array([inf, 0.5, 0. ])
    """
    return _call("rsqrt", method, ufunc_keywords, x)


def _call(name: str, method: str, keywords: dict[str, Any], x: Any, *alpha: Any) -> Any:
    if alpha and not (type(alpha[0]) is float and 0.0 <= alpha[0] < math.inf):
        alpha = (_checked(alpha[0]),)
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        x = np.asarray(x)
        dtype = x.dtype
    if (
        dtype.kind in "biu"
    ):  # as np.sqrt promotes them; beside a Python float for alpha, NumPy would take float64 for all
        x = x.astype(np.sqrt.resolve_dtypes((dtype, None))[1])
    try:
        return _ufuncs[name][method](x, *alpha, **keywords)
    except KeyError:
        check_method(method)
        raise
    except TypeError:
        if (dtype.kind == "f" and dtype.itemsize <= 8) or dtype.name == "bfloat16":
            raise
        accepted = "real numbers (float16, bfloat16, float32, float64, integers)"
        raise TypeError(f"{name} takes {accepted}, got {dtype}") from None


def _checked(alpha: Any) -> Any:
    """An alpha that is no plain float in range: another number, an array, or a mistake."""
    if not isinstance(alpha, np.generic | np.ndarray | list | tuple):
        return check_alpha(alpha)
    values = np.asarray(alpha)
    if values.dtype.kind not in "fiu" and values.dtype.name != "bfloat16":
        raise TypeError(f"alpha must be a real number or an array of them, got an array of {values.dtype}")
    if (bad := values[~((values >= 0) & np.isfinite(values))]).size:
        raise ValueError(f"alpha must be a finite number >= 0, got {bad.flat[0]!s}")
    return values

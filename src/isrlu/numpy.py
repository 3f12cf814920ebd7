"""ISRLU and ISRU for NumPy arrays: ufuncs that run SIMD kernels.

Every function broadcasts x and alpha and accepts the keywords of NumPy's ufuncs (`out`, `where`, `dtype`, `casting`,
`order`, `subok`). `method` selects how the inverse square root is computed: full, approx, newton1, newton2, ieee,
kinney or table. float16, float32 and float64 keep their dtype, and so does bfloat16 if ml_dtypes is installed. Integers
are promoted as by `np.sqrt`.

>>> import numpy as np
>>> isrlu(np.float32([-np.inf, -1.0, 0.0, 2.0]))
array([-1.        , -0.70710677,  0.        ,  2.        ], dtype=float32)
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from isrlu import _core, _formula
from isrlu._checks import METHODS, check_alpha, check_channels, check_finite, check_method, refuse_alpha_array
from isrlu.signal import SISRLU_ALPHA

__all__ = [
    "dyisru",
    "isrlu",
    "isrlu_grad",
    "isru",
    "isru_grad",
    "isru_sigmoid",
    "isru_sigmoid_grad",
    "rsqrt",
    "sisrlu",
    "sisrlu_grad",
]

_ufuncs = _core.ufuncs()

try:
    import ml_dtypes
except ImportError:  # then there are no bfloat16 arrays
    pass
else:
    _core.register_bfloat16(_ufuncs, np.dtype(ml_dtypes.bfloat16))

_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))


def _with_alpha(name: str, doc: str, default: float = 1.0) -> Callable[..., Any]:
    """A function of x and alpha. The common case is checked first: for small arrays Python's overhead dominates."""
    ufuncs = _ufuncs[name]
    check = _checked_number if name.startswith("sisrlu") else _checked

    def function(x: Any, alpha: Any = default, *, out: Any = None, method: str = "full", **keywords: Any) -> Any:
        if type(x) is np.ndarray and x.dtype in _FLOATS and type(alpha) is float and 0.0 <= alpha < math.inf:
            if not keywords and method in METHODS and (out is None or type(out) is np.ndarray):
                return ufuncs[method](x, alpha, out)
        elif type(alpha) is not float or not 0.0 <= alpha < math.inf:
            alpha = check(alpha)
        return _general(name, method, (x, alpha), out, keywords)

    return _named(function, name, doc)


def _without_alpha(name: str, doc: str) -> Callable[..., Any]:
    """A function of x alone."""

    def function(x: Any, *, out: Any = None, method: str = "full", **keywords: Any) -> Any:
        return _general(name, method, (x,), out, keywords)

    return _named(function, name, doc)


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _general(name: str, method: str, operands: tuple[Any, ...], out: Any, keywords: dict[str, Any]) -> Any:
    """Call the ufunc on anything that NumPy converts to an array. A dtype without a loop gets a readable error."""
    ufunc = _ufuncs[name][check_method(method)]
    x, *alpha = operands
    if alpha and keywords.get("dtype") is not None:  # alpha is float32 in the loops of 16-bit dtypes
        wanted = np.dtype(keywords.pop("dtype"))
        keywords["signature"] = (wanted, np.float64 if wanted == np.float64 else np.float32, wanted)
    if not hasattr(type(x), "__array_ufunc__"):  # a number, a list, or another library's array
        x = np.asarray(x)
    dtype = getattr(x, "dtype", None)
    if not isinstance(dtype, np.dtype):  # such as a data frame, which handles ufuncs itself
        return ufunc(x, *alpha, out=out, **keywords)
    if dtype.kind in "biu" and hasattr(x, "astype"):
        # Promote as np.sqrt does. Because alpha is a float, NumPy would promote all integers to float64.
        x = x.astype(np.sqrt.resolve_dtypes((dtype, None))[1])
    try:
        return ufunc(x, *alpha, out=out, **keywords)
    except TypeError:
        if (dtype.kind in "biuf" and dtype.itemsize <= 8) or dtype.name == "bfloat16":
            raise
        accepted = "real numbers (float16, bfloat16, float32, float64, integers)"
        raise TypeError(f"{name} takes {accepted}, got {dtype}") from None


def _checked(alpha: Any) -> Any:
    """Check an alpha that is not a float in range: another number, an array, or an invalid value."""
    if not isinstance(alpha, np.generic | np.ndarray | list | tuple):
        return check_alpha(alpha)
    values = np.asarray(alpha)
    if values.dtype.kind not in "fiu" and values.dtype.name != "bfloat16":
        raise TypeError(f"alpha must be a real number or an array of them, got an array of {values.dtype}")
    if (bad := values[~((values >= 0) & np.isfinite(values))]).size:
        raise ValueError(f"alpha must be a finite number >= 0, got {bad.flat[0]!s}")
    return values


def _checked_number(alpha: Any) -> float:
    """Check the alpha of sisrlu, from which its constants are computed."""
    if np.ndim(alpha) > 0:
        refuse_alpha_array("sisrlu", "an array")
    return check_alpha(alpha)


isrlu = _with_alpha(
    "isrlu",
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0.

    >>> isrlu([-1.0, 2.0], alpha=[[0.0], [3.0]])
    array([[-1. ,  2. ],
           [-0.5,  2. ]])
    """,
)

isrlu_grad = _with_alpha(
    "isrlu_grad",
    """1 for x >= 0, (1 / sqrt(1 + alpha x^2))^3 for x < 0: the derivative of `isrlu`.

    >>> isrlu_grad([-1.0, 2.0], alpha=3)
    array([0.125, 1.   ])
    """,
)

isru = _with_alpha(
    "isru",
    """x / sqrt(1 + alpha x^2), a replacement for tanh.

    >>> isru([-1.0, 0.0, 1.0], alpha=3)
    array([-0.5,  0. ,  0.5])
    """,
)

isru_grad = _with_alpha(
    "isru_grad",
    """(1 / sqrt(1 + alpha x^2))^3: the derivative of `isru`.

    >>> isru_grad([-1.0, 0.0], alpha=3)
    array([0.125, 1.   ])
    """,
)

isru_sigmoid = _without_alpha(
    "isru_sigmoid",
    """(1 + isru(x / 2)) / 2, a replacement for the logistic sigmoid.

    >>> isru_sigmoid([-np.inf, 0.0, np.inf])
    array([0. , 0.5, 1. ])
    """,
)

isru_sigmoid_grad = _without_alpha(
    "isru_sigmoid_grad",
    """(1 / sqrt(1 + x^2 / 4))^3 / 4: the derivative of `isru_sigmoid`.

    >>> isru_sigmoid_grad([0.0, np.inf])
    array([0.25, 0.  ])
    """,
)

sisrlu = _with_alpha(
    "sisrlu",
    """lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU.

    lambda and beta follow from alpha, a number (`isrlu.signal.sisrlu_constants`): for a standard normal x the result
    has mean 0 and variance 1.

    >>> sisrlu([-np.inf, 0.0, 1.0]).round(4)
    array([-1.7581,  0.    ,  1.0478])
    """,
    SISRLU_ALPHA,
)

sisrlu_grad = _with_alpha(
    "sisrlu_grad",
    """lambda for x >= 0, lambda beta (1 / sqrt(1 + alpha x^2))^3 for x < 0: the derivative of `sisrlu`.

    >>> sisrlu_grad([-np.inf, 0.0, 1.0]).round(4)
    array([0.    , 1.0478, 1.0478])
    """,
    SISRLU_ALPHA,
)

rsqrt = _without_alpha(
    "rsqrt",
    """1 / sqrt(x).

    >>> rsqrt([0.0, 4.0, np.inf])
    array([inf, 0.5, 0. ])
    """,
)


def dyisru(x: Any, weight: Any = None, bias: Any = None, alpha: float = 0.5, shift: float = 0.0) -> Any:
    """weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift: the element-wise replacement of layer normalisation.

    weight and bias have the shape of x's last dims; None stands for 1 and 0. The result has x's dtype. 16-bit dtypes
    are computed in float32 and rounded once.

    >>> dyisru(np.float32([-1.5, 0.0, 1.5]), weight=[5, 5, 5], alpha=0.5)
    array([-3.,  0.,  3.], dtype=float32)
    """
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        x = x.astype(np.sqrt.resolve_dtypes((x.dtype, None))[1])
    x = x.astype(x.dtype.newbyteorder("="), copy=False)
    if x.dtype not in _FLOATS and x.dtype.name != "bfloat16":
        raise TypeError(f"dyisru takes real numbers (float16, bfloat16, float32, float64, integers), got {x.dtype}")
    dtype = np.dtype(_formula.computed(x.dtype.name))
    scale = [None if given is None else np.asarray(given, dtype) for given in (weight, bias)]
    for name, given in zip(("weight", "bias"), scale, strict=True):
        if given is not None:
            check_channels(x.shape, name, given.shape)
    a, s = (dtype.type(check_finite(name, given)) for name, given in (("alpha", alpha), ("shift", shift)))
    with np.errstate(over="ignore"):
        y = isru(_formula.norm_argument(np, x.astype(dtype), a, s, np.finfo(dtype).max))
        y = y if scale[0] is None else y * scale[0]
        return (y if scale[1] is None else y + scale[1]).astype(x.dtype)[()]

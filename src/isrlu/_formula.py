"""x / sqrt(1 + alpha x^2) and its derivatives in array ops, shared by JAX and Keras.

With d = 1 + alpha x^2 and the inverse root r = 1 / sqrt(d), everything else is a product:

    f  = x r                 df/dx = r^3                    df/dalpha = -f^3 / 2
    r  = sqrt(1 / d)         dr/dx = -alpha f r^2           dr/dalpha = -f^2 r / 2

Where the plain formula fails, and what is done instead:
- alpha x^2 can overflow. r is then 0, which is correct, but f = x * 0 is not. Beyond +-far / sqrt(alpha), f equals
  +-1 / sqrt(alpha) to the last bit, so that value is returned.
- alpha x^2 is computed as (alpha x) x, not alpha (x x). It overflows only where f is saturated, even for a tiny alpha.
- For alpha = 0 and x = inf the product 0 * inf is NaN. For alpha = 0 every x is returned unchanged.
- The derivative that autograd would derive, r - alpha x^2 r^3, cancels. The frameworks get r^3 instead.

The root is sqrt(1 / d), not 1 / sqrt(d). It is more accurate, because the root halves the relative error of the
quotient. Also, XLA turns 1 / sqrt(d) into its rsqrt, whose special cases take more instructions than root and division.
"""

import math
import sys
from types import ModuleType
from typing import Any

from isrlu.signal import sisrlu_constants


def computed(dtype: str) -> str:
    """The dtype used for the computation: float64 for float64, else float32. Results are rounded once, at the end."""
    return "float64" if dtype == "float64" else "float32"


def far(dtype: str) -> float:
    """A z = sqrt(alpha) |x| beyond which f is saturated: 1 + far^2 rounds to far^2, far^-3 to 0, and far^2 is finite.

    This is a function because Dynamo treats a module-level number as a variable where shapes are dynamic.
    """
    return 2.0**500 if dtype == "float64" else 2.0**60


def inverse_root(ops: ModuleType, x: Any, alpha: Any) -> Any:
    """1 / sqrt(1 + alpha x^2). It is 0 where alpha x^2 overflows."""
    return ops.sqrt(1.0 / (1.0 + (alpha * x) * x))


def isrlu(ops: ModuleType, x: Any, alpha: Any, far: float) -> tuple[Any, Any]:
    """f(x) and the inverse root r, so that f'(x) = r^3: (x, 1) for x >= 0, the curve for x < 0.

    XLA and TensorFlow read a subnormal x as 0. It then counts as x >= 0 and is returned without being flushed.
    """
    r = inverse_root(ops, x, alpha)
    bound = 1.0 / ops.sqrt(alpha)
    f = ops.where(x < -far * bound, -bound, x * r)
    passes = x >= -_infinite_if_zero(ops, alpha)
    return ops.where(passes, x, f), ops.where(passes, ops.ones_like(r), r)


def isru(ops: ModuleType, x: Any, alpha: Any, far: float) -> tuple[Any, Any]:
    """f(x) and the inverse root r, so that f'(x) = r^3, for all x: odd, with -0.0 for -0.0.

    For alpha > 0 only x = 0 is returned unchanged. XLA and TensorFlow read a subnormal x as 0, so they do not flush it.
    """
    a = ops.abs(x)
    r = inverse_root(ops, x, alpha)
    bound = 1.0 / ops.sqrt(alpha)
    f = ops.where(a > far * bound, ops.where(x < 0, -bound, bound), x * r)
    passes = a <= _infinite_if_zero(ops, alpha)
    return ops.where(passes, x, f), ops.where(passes, ops.ones_like(r), r)


def isru_sigmoid(ops: ModuleType, x: Any, far: float) -> tuple[Any, Any]:
    """s(x) = (1 + isru(x/2)) / 2 and the inverse root r = 1 / sqrt(1 + x^2/4), so that s'(x) = r^3 / 4.

    For x < 0 the sum cancels, completely below x = -1e4. With a = -isru(x/2) it equals (1 - a) / 2 =
    (1 - a^2) / (2 (1 + a)) = r^2 / (2 (1 + a)). That form keeps its relative accuracy down to the tail 1/x^2.
    """
    half = ops.abs(x) * 0.5
    r = inverse_root(ops, half, 1.0)
    a = ops.where(half > far, ops.ones_like(r), half * r)
    return ops.where(x < 0, (0.5 * r) * (r / (1.0 + a)), 0.5 + 0.5 * a), r


def sisrlu_scales(alpha: float, dtype: str) -> tuple[float, float, float]:
    """alpha, limited to the range of `dtype`, and the factors of isrlu(x): lambda for x >= 0, lambda beta for x < 0."""
    alpha = min(alpha, sys.float_info.max if dtype == "float64" else 2.0**128 - 2.0**104)
    beta, lambda_ = sisrlu_constants(alpha)
    return alpha, lambda_, lambda_ * beta


def _infinite_if_zero(ops: ModuleType, alpha: Any) -> Any:
    """inf where alpha is 0, else 0."""
    return ops.where(alpha == 0, ops.full_like(alpha, math.inf), ops.zeros_like(alpha))

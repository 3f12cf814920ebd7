"""x / sqrt(1 + alpha x^2) and its derivatives in array ops, once, for JAX and for Keras.

With d = 1 + alpha x^2 and the inverse root r = 1 / sqrt(d), everything else is a product:

    f  = x r                 df/dx = r^3                    df/dalpha = -f^3 / 2
    r  = sqrt(1 / d)         dr/dx = -alpha f r^2           dr/dalpha = -f^2 r / 2

What the plain formula gets wrong, and what is done about it:
- alpha x^2 overflows. Then r is 0, as it should be, but f = x 0 is not: beyond +-far / sqrt(alpha), where f is
  +-1 / sqrt(alpha) to the last bit, that is what is taken.
- (alpha x) x, and not alpha (x x), overflows only where f has long been saturated, however small alpha is.
- alpha = 0 and x = inf make 0 inf = NaN: for alpha = 0 every x passes as it is.
- The derivative that autograd would make, r - alpha x^2 r^3, cancels: so the frameworks are given r^3.

sqrt(1 / d) instead of 1 / sqrt(d): it is rounded better (the error of the quotient is halved by the root), and XLA
turns 1 / sqrt(d) into its rsqrt, whose special cases cost more instructions than the root and the division.
"""

import math
from types import ModuleType
from typing import Any


def computed(dtype: str) -> str:
    """The dtype that `dtype` is computed in: itself or float32, from which it is rounded once, at the end."""
    return "float64" if dtype == "float64" else "float32"


def far(dtype: str) -> float:
    """So large that 1 + far^2 is far^2 and far^-3 is 0, and so small that far^2 does not overflow.

    A function, because Dynamo takes a number that lies in a module for a variable where shapes are dynamic.
    """
    return 2.0**500 if dtype == "float64" else 2.0**60


def inverse_root(ops: ModuleType, x: Any, alpha: Any) -> Any:
    """1 / sqrt(1 + alpha x^2), which is 0 where alpha x^2 overflows."""
    return ops.sqrt(1.0 / (1.0 + (alpha * x) * x))


def isrlu(ops: ModuleType, x: Any, alpha: Any, far: float) -> tuple[Any, Any]:
    """f(x) and the inverse root r, so that f'(x) = r^3: (x, 1) for x >= 0, the curve for x < 0.

    A subnormal x counts as x >= 0 where the hardware reads it as 0 (XLA, TensorFlow), and so passes unflushed.
    """
    r = inverse_root(ops, x, alpha)
    bound = 1.0 / ops.sqrt(alpha)
    f = ops.where(x < -far * bound, -bound, x * r)
    passes = x >= -_infinite_if_zero(ops, alpha)
    return ops.where(passes, x, f), ops.where(passes, ops.ones_like(r), r)


def isru(ops: ModuleType, x: Any, alpha: Any, far: float) -> tuple[Any, Any]:
    """f(x) and the inverse root r, so that f'(x) = r^3, for all x: odd, with -0.0 for -0.0.

    Only 0 passes as it is, and with it a subnormal where the hardware reads it as 0: that spares it the flush.
    """
    a = ops.abs(x)
    r = inverse_root(ops, x, alpha)
    bound = 1.0 / ops.sqrt(alpha)
    f = ops.where(a > far * bound, ops.where(x < 0, -bound, bound), x * r)
    passes = a <= _infinite_if_zero(ops, alpha)
    return ops.where(passes, x, f), ops.where(passes, ops.ones_like(r), r)


def isru_sigmoid(ops: ModuleType, x: Any, far: float) -> tuple[Any, Any]:
    """s(x) = (1 + isru(x/2)) / 2 and the inverse root r = 1 / sqrt(1 + x^2/4), so that s'(x) = r^3 / 4.

    For x < 0 the sum cancels, to nothing from x = -1e4 on. There, with a = -isru(x/2), it is (1 - a) / 2 =
    (1 - a^2) / (2 (1 + a)) = r^2 / (2 (1 + a)), which keeps its relative accuracy down to the true tail 1/x^2.
    """
    half = ops.abs(x) * 0.5
    r = inverse_root(ops, half, 1.0)
    a = ops.where(half > far, ops.ones_like(r), half * r)
    return ops.where(x < 0, (0.5 * r) * (r / (1.0 + a)), 0.5 + 0.5 * a), r


def _infinite_if_zero(ops: ModuleType, alpha: Any) -> Any:
    """inf for alpha = 0, else 0."""
    return ops.where(alpha == 0, ops.full_like(alpha, math.inf), ops.zeros_like(alpha))

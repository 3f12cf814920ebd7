"""The oracle: the paper's formulas in float64 or long double, simple to read and without overflow.

    isru(x)          x / sqrt(1 + alpha x^2)                  f'(x) = (1 + alpha x^2)^(-3/2)
    isrlu(x)         x for x >= 0, isru(x) for x < 0          f'(x) = 1 for x >= 0
    isru_sigmoid(x)  (1 + isru(x / 2)) / 2                    f'(x) = (1 + x^2 / 4)^(-3/2) / 4
    sisrlu(x)        lambda x for x >= 0, lambda beta isru(x) for x < 0
    rsqrt(x)         1 / sqrt(x)                              f'(x) = -x^(-3/2) / 2

hypot(1, sqrt(alpha) x) is sqrt(1 + alpha x^2) and does not overflow in x^2.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrlu.signal._sisrlu import extended_constants

Floats = NDArray[Any]  # float64 or long double


def reference(function: str, x: ArrayLike, alpha: ArrayLike = 1.0, *, extended: bool = False) -> Floats:
    """f(x) in float64. With `extended`: in long double, or by mpmath if long double is no wider than float64.

    >>> float(reference("isrlu", -1.0, 3.0))
    -0.5
    """
    return _evaluate("f", function, x, alpha, extended)


def derivative(function: str, x: ArrayLike, alpha: ArrayLike = 1.0, *, extended: bool = False) -> Floats:
    """df/dx, with the same arguments as `reference`.

    >>> float(derivative("isrlu", -1.0, 3.0))
    0.125
    """
    return _evaluate("dfdx", function, x, alpha, extended)


def alpha_derivative(function: str, x: ArrayLike, alpha: ArrayLike = 1.0, *, extended: bool = False) -> Floats:
    """df/dalpha = -f(x)^3 / 2, or 0 if f(x) does not depend on alpha."""
    return _evaluate("dfdalpha", function, x, alpha, extended)


def recurrent_step(layer: str, gates: str, arguments: ArrayLike, h: ArrayLike, c: ArrayLike) -> tuple[Floats, Floats]:
    """(h', c') after one step of an LSTM or GRU in float64, from the pre-activations of its gates. In a GRU c' = c.

    `arguments` has the shape [rows, 4, hidden]: i f g o for an LSTM; q r z n for a GRU, whose candidate
    state is tanh(n + sigmoid(r) q). `gates` is "isru" or "exact" (tanh and the logistic sigmoid).
    """
    state, memory = np.asarray(h, np.float64), np.asarray(c, np.float64)
    first, second, third, fourth = np.moveaxis(np.asarray(arguments, np.float64), -2, 0)
    tanh: Callable[[Floats], Floats] = np.tanh
    sigmoid: Callable[[Floats], Floats] = lambda x: (1 + np.tanh(x / 2)) / 2  # noqa: E731
    if gates == "isru":
        tanh, sigmoid = (lambda x: reference("isru", x)), (lambda x: reference("isru_sigmoid", x))
    if layer == "LSTM":
        memory = sigmoid(second) * memory + sigmoid(first) * tanh(third)
        return sigmoid(fourth) * tanh(memory), memory
    z = sigmoid(third)
    return (1 - z) * tanh(fourth + sigmoid(second) * first) + z * state, memory


def _evaluate(quantity: str, function: str, x: ArrayLike, alpha: ArrayLike, extended: bool) -> Floats:
    formulas = _FORMULAS[quantity]
    if function not in formulas:
        raise ValueError(f"the oracle has no {quantity} of {function!r}: known are {', '.join(formulas)}")
    if extended and np.finfo(np.longdouble).nmant < 60:
        return _by_mpmath(quantity, function, x, alpha)
    dtype = np.longdouble if extended else np.float64
    # 0 * inf and inf / inf occur in branches that np.where discards.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        return formulas[function](np.asarray(x, dtype), np.asarray(alpha, dtype))


def _by_mpmath(quantity: str, function: str, x: ArrayLike, alpha: ArrayLike) -> Floats:
    """The plain formulas: mpmath's exponents do not overflow. An infinite x or f keeps the float64 result."""
    import mpmath

    def exact(x: Any, alpha: Any) -> Any:
        if function == "rsqrt":
            return x**-0.5 if quantity == "f" else -(x**-1.5) / 2
        sigmoid, passes = function == "isru_sigmoid", function in ("isrlu", "sisrlu") and x >= 0
        if function == "sisrlu":
            scale = _exact_scales(alpha)[0 if passes else 1]
            root = 1 if passes else 1 / mpmath.sqrt(1 + alpha * x * x)
            return scale * (x * root if quantity == "f" else root**3)
        x, alpha = (x / 2, 1) if sigmoid else (x, alpha)
        root = 1 if passes else 1 / mpmath.sqrt(1 + alpha * x * x)
        f, slope, by_alpha = x * root, root**3, 0 if passes else -((x * root) ** 3) / 2
        return {"f": (1 + f) / 2 if sigmoid else f, "dfdx": slope / 4 if sigmoid else slope, "dfdalpha": by_alpha}[
            quantity
        ]

    rounded = _evaluate(quantity, function, x, alpha, extended=False)
    result, x, alpha = np.broadcast_arrays(rounded, np.asarray(x, np.float64), np.asarray(alpha, np.float64))
    result = result.copy()
    with mpmath.workprec(4500):  # bits: enough for 1 + f(x) at x = -1e308, where half of them cancel
        for at in zip(*np.nonzero(np.isfinite(x) & np.isfinite(result)), strict=True):
            result[at] = float(exact(mpmath.mpf(float(x[at])), mpmath.mpf(float(alpha[at]))))
    return result


@functools.cache
def _exact_scales(alpha: Any) -> tuple[Any, Any]:
    """lambda and lambda beta of sisrlu by mpmath, in the closed form of docs/signal.md."""
    import mpmath

    if alpha == 0:
        return mpmath.mpf(1), mpmath.mpf(1)
    s = 1 / mpmath.sqrt(2 * alpha)
    g = mpmath.sqrt(mpmath.pi) * s * mpmath.exp(s * s) * mpmath.erfc(s)
    scale = 1 / mpmath.sqrt(mpmath.mpf(1) / 2 + s * s * (1 - g) / g**2)
    return scale, scale / g


def _isru(x: Floats, alpha: Floats) -> Floats:
    """For |x| > 1 numerator and denominator are divided by x: neither overflows, and infinity is no special case."""
    near = x / np.hypot(1, np.sqrt(alpha) * x)
    far = np.copysign(1 / np.hypot(1 / x, np.sqrt(alpha)), x)
    return np.where(np.abs(x) > 1, far, near)


def _root_cubed(x: Floats, alpha: Floats) -> Floats:
    """(1 + alpha x^2)^(-3/2)"""
    slope = (1 / np.hypot(1, np.sqrt(alpha) * x)) ** 3
    return np.where((alpha == 0) & ~np.isnan(x), 1, slope)


def _isrlu(x: Floats, alpha: Floats) -> Floats:
    return np.where(x >= 0, x, _isru(x, alpha))


def _isrlu_slope(x: Floats, alpha: Floats) -> Floats:
    return np.where(x >= 0, 1, _root_cubed(x, alpha))


def _sisrlu_scale(x: Floats, alpha: Floats) -> Floats:
    """lambda for x >= 0, lambda beta for x < 0."""
    each, place = np.unique(alpha, return_inverse=True)
    found = [extended_constants(float(number)) for number in each]
    positive = np.array([lambda_ for _, lambda_ in found], x.dtype)[place].reshape(np.shape(alpha))
    negative = np.array([lambda_ * beta for beta, lambda_ in found], x.dtype)[place].reshape(np.shape(alpha))
    return np.where(x >= 0, positive, negative)


def _sisrlu(x: Floats, alpha: Floats) -> Floats:
    return _sisrlu_scale(x, alpha) * _isrlu(x, alpha)


def _sisrlu_slope(x: Floats, alpha: Floats) -> Floats:
    """scale r^3, multiplied in this order: r^3 alone may underflow."""
    scale, r = _sisrlu_scale(x, alpha), 1 / np.hypot(1, np.sqrt(alpha) * x)
    return np.where((x >= 0) | ((alpha == 0) & ~np.isnan(x)), scale, scale * r * r * r)


def _isru_alpha_slope(x: Floats, alpha: Floats) -> Floats:
    return -(_isru(x, alpha) ** 3) / 2


def _isrlu_alpha_slope(x: Floats, alpha: Floats) -> Floats:
    return np.where(x >= 0, 0, _isru_alpha_slope(x, alpha))


def _isru_sigmoid(x: Floats, alpha: Floats) -> Floats:
    """For x < 0, 1 + isru(x/2) would cancel. With h = x/2 and R = sqrt(1 + h^2) it equals 1 / (R (R - h))."""
    h = x / 2
    root = np.hypot(1, h)
    return np.where(x < 0, 0.5 / root / (root - h), (1 + _isru(h, np.ones_like(x))) / 2)


def _rsqrt(x: Floats, alpha: Floats) -> Floats:
    return 1 / np.sqrt(x)


def _rsqrt_slope(x: Floats, alpha: Floats) -> Floats:
    return -0.5 / x / np.sqrt(x)


def _isru_sigmoid_slope(x: Floats, alpha: Floats) -> Floats:
    return _root_cubed(x / 2, np.ones_like(x)) / 4


_FORMULAS = {
    "f": {"isrlu": _isrlu, "isru": _isru, "isru_sigmoid": _isru_sigmoid, "sisrlu": _sisrlu, "rsqrt": _rsqrt},
    "dfdx": {
        "isrlu": _isrlu_slope,
        "isru": _root_cubed,
        "isru_sigmoid": _isru_sigmoid_slope,
        "sisrlu": _sisrlu_slope,
        "rsqrt": _rsqrt_slope,
    },
    "dfdalpha": {"isrlu": _isrlu_alpha_slope, "isru": _isru_alpha_slope},
}

"""Moments of the activations of a normal x, the gains that restore them, and the slopes of their maps."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isrlu._checks import check_alpha
from isrlu.signal._sisrlu import POSITIVE, SISRLU_ALPHA, STEP, sisrlu_constants

Array = NDArray[np.float64]
Function = str | Callable[[Array], Array]

# Nodes and weights of both signs.
_NODES = np.concatenate([-POSITIVE, POSITIVE]).astype(np.float64)
_WEIGHTS = np.concatenate([POSITIVE, POSITIVE]).astype(np.float64) * (STEP / math.sqrt(2 * math.pi))


class Moments(NamedTuple):
    """Mean and variance of f(x)."""

    mean: float
    variance: float


def moments(function: Function, alpha: float | None = None, *, mean: float = 0.0, variance: float = 1.0) -> Moments:
    """Mean and variance of f(x) for a normal x of the given mean and variance.

    >>> moments("isrlu", 0.0)  # alpha = 0 is the identity
    Moments(mean=0.0, variance=1.0)
    """
    y, weights, _ = _sample(function, alpha, mean, variance)
    first = math.fsum(y * weights)
    return Moments(first, math.fsum((y - first) ** 2 * weights))


def second_moment(function: Function, alpha: float | None = None) -> float:
    """E[f(z)^2] for a standard normal z."""
    y, weights, _ = _sample(function, alpha, 0.0, 1.0)
    return math.fsum(y * y * weights)


def std_gain(function: Function, alpha: float | None = None) -> float:
    """1 / std of f(z): f times this gain has variance 1. For weights of zero sum (weight standardisation, NFNets)."""
    return 1 / math.sqrt(moments(function, alpha).variance)


def rms_gain(function: Function, alpha: float | None = None) -> float:
    """1 / sqrt(E[f(z)^2]): weights of variance gain^2 / fan_in keep the second moment. He's sqrt(2) for ReLU.

    >>> round(rms_gain("relu") ** 2, 12)
    2.0
    """
    return 1 / math.sqrt(second_moment(function, alpha))


def variance_slope(function: Function, alpha: float | None = None) -> float:
    """Slope at 1 of the map from the variance before to the variance after one layer that f times `std_gain` makes.

    A small error of the variance is multiplied by it in every layer: below 1 the variance 1 is attracting.
    """
    return jacobian(function, alpha)[1][1] / moments(function, alpha).variance


def second_moment_slope(function: Function, alpha: float | None = None) -> float:
    """The same for the second moment and `rms_gain`: a layer with independent weights of zero mean."""
    y, weights, z = _sample(function, alpha, 0.0, 1.0)
    return math.fsum(y * y * (z * z - 1) / 2 * weights) / second_moment(function, alpha)


def jacobian(
    function: Function, alpha: float | None = None, *, mean: float = 0.0, variance: float = 1.0
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Derivatives of (mean, variance) after f with respect to (mean, variance) before it, row by row.

    d E[g(x)] / d mean = E[g z] / sigma and d E[g(x)] / d variance = E[g (z^2 - 1)] / (2 sigma^2), z = (x - mean) /
    sigma: derivatives of the density, so f needs none.
    """
    y, weights, z = _sample(function, alpha, mean, variance)
    y = y - math.fsum(y * weights)  # the variance is then E[y^2], and its derivative by the mean of y is 0
    by_mean, by_variance = z / math.sqrt(variance) * weights, (z * z - 1) / (2 * variance) * weights
    first, second = ((math.fsum(g * by_mean), math.fsum(g * by_variance)) for g in (y, y * y))
    return first, second


def _sample(function: Function, alpha: float | None, mean: float, variance: float) -> tuple[Array, Array, Array]:
    """f(x), the weights of an expectation, and z = (x - mean) / sigma, at the nodes."""
    if not (0 < variance < math.inf and math.isfinite(mean)):
        raise ValueError(f"mean and variance must be finite and variance > 0, got mean={mean!r}, variance={variance!r}")
    sigma = math.sqrt(variance)
    z = _NODES - mean / sigma
    return _resolve(function, alpha)(sigma * _NODES), _WEIGHTS * np.exp(-z * z / 2), z


def _resolve(function: Function, alpha: float | None) -> Callable[[Array], Array]:
    """A function of x alone."""
    if not isinstance(function, str):
        if alpha is not None:
            raise ValueError(f"alpha={alpha!r} needs the name of a function with an alpha: {', '.join(_WITH_ALPHA)}")
        if not callable(function):
            raise TypeError(f"function must be a name or a callable, got {function!r}")
        return function
    if function in _WITH_ALPHA:
        of, default = _WITH_ALPHA[function]
        return of(check_alpha(default if alpha is None else alpha))
    if function not in _WITHOUT_ALPHA:
        raise ValueError(f"unknown function {function!r}: known are {', '.join(FUNCTIONS)}")
    if alpha is not None:
        raise ValueError(f"{function} has no alpha, got {alpha!r}")
    return _WITHOUT_ALPHA[function]


def _isru(alpha: float) -> Callable[[Array], Array]:
    return lambda x: x / np.hypot(1, math.sqrt(alpha) * x)


def _isrlu(alpha: float) -> Callable[[Array], Array]:
    return lambda x: np.where(x >= 0, x, _isru(alpha)(x))


def _sisrlu(alpha: float) -> Callable[[Array], Array]:
    beta, lambda_ = sisrlu_constants(alpha)
    return lambda x: lambda_ * np.where(x >= 0, x, beta * _isru(alpha)(x))


def _centered_isrlu(alpha: float) -> Callable[[Array], Array]:
    first, second = moments("isrlu", alpha)
    return lambda x: (_isrlu(alpha)(x) - first) / math.sqrt(second)


def _elu(x: Array) -> Array:
    return np.where(x >= 0, x, np.expm1(np.minimum(x, 0)))


def _selu(x: Array) -> Array:
    return 1.0507009873554805 * np.where(x >= 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))


# name -> (function of alpha that returns f, default of alpha)
_WITH_ALPHA = {
    "isrlu": (_isrlu, 1.0),
    "isru": (_isru, 1.0),
    "sisrlu": (_sisrlu, SISRLU_ALPHA),
    "centered_isrlu": (_centered_isrlu, 1.0),
}
_WITHOUT_ALPHA: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "elu": _elu,
    "selu": _selu,
    "tanh": np.tanh,
}
FUNCTIONS = (*_WITH_ALPHA, *_WITHOUT_ALPHA)
"""The names that `function` may have."""

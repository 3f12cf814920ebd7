"""How a signal goes through many layers: moments, gains and slopes of the activations under a normal distribution.

All results are Python floats, accurate to about 1e-14. No framework is needed. `function` is one of the names in
`FUNCTIONS`, or any callable that maps a NumPy array to one of the same shape. docs/signal.md states and proves what the
numbers mean. `python -m isrlu.signal` prints its tables.

>>> round(std_gain("isrlu", 1.0), 4)  # for normalised weights, as in NFNets
1.2372
>>> beta, lambda_ = sisrlu_constants(1.0)
>>> round(beta, 5), round(lambda_, 5)
(1.52514, 1.05383)

The quadrature is the trapezoidal rule in t, x = +-sigma e^t, for each sign separately, so that a kink at 0 does no
harm. In t the poles of the activations are at a distance of pi/2 from the real axis for every alpha, and the normal
density decays within pi/4 of the axis. The error is then about exp(-2 pi (pi/4) / h): 1e-22 for the step h = 3/32.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isrlu._checks import check_alpha

__all__ = [
    "FUNCTIONS",
    "SISRLU_ALPHA",
    "Constants",
    "DomainCheck",
    "Moments",
    "check_domain",
    "jacobian",
    "moments",
    "rms_gain",
    "second_moment",
    "second_moment_slope",
    "sisrlu_constants",
    "std_gain",
    "variance_slope",
]

SISRLU_ALPHA = 0.70832  # lambda beta / sqrt(alpha) = 1.7581: sisrlu then saturates where SELU does

Array = NDArray[np.float64]
Function = str | Callable[[Array], Array]

_STEP = 3 / 32  # exact in binary: the steps must be equal
_POSITIVE = np.exp(np.arange(-40, 3, _STEP))  # |x| / sigma. Below e^-40 nothing counts, above e^3 the density is 0.
_NODES = np.concatenate([-_POSITIVE, _POSITIVE])
_WEIGHTS = np.concatenate([_POSITIVE, _POSITIVE]) * (_STEP / math.sqrt(2 * math.pi))


class Moments(NamedTuple):
    """Mean and variance of f(x)."""

    mean: float
    variance: float


class Constants(NamedTuple):
    """The constants of sisrlu: lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0."""

    beta: float
    lambda_: float


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


def sisrlu_constants(alpha: float = SISRLU_ALPHA) -> Constants:
    """beta and lambda, for which sisrlu(z) has mean 0 and variance 1.

    beta = E[z+] / E[z- / sqrt(1 + alpha z^2)], lambda^-2 = 1/2 + beta^2 E[z-^2 / (1 + alpha z^2)], where z- = max(-z, 0).
    alpha = 0 gives exactly (1, 1), the identity.
    """
    return _sisrlu_constants(check_alpha(alpha))


@functools.lru_cache
def _sisrlu_constants(alpha: float) -> Constants:
    if alpha == 0:
        return Constants(1.0, 1.0)
    curve = _POSITIVE / np.hypot(1, math.sqrt(alpha) * _POSITIVE)
    density = _POSITIVE * _STEP * np.exp(-_POSITIVE * _POSITIVE / 2)
    beta = 1 / math.fsum(curve * density)
    second = math.fsum((beta * curve) ** 2 * density) / math.sqrt(2 * math.pi)
    return Constants(beta, 1 / math.sqrt(0.5 + second))


class DomainCheck(NamedTuple):
    """The ranges of mean and variance after one layer, and the largest norm of its Jacobian, over a domain."""

    mean: tuple[float, float]
    variance: tuple[float, float]
    norm: float


def check_domain(
    function: Function,
    alpha: float | None = None,
    *,
    mean: tuple[float, float] = (-0.1, 0.1),
    variance: tuple[float, float] = (0.8, 1.5),
    weight_sum: tuple[float, float] = (-0.1, 0.1),
    weight_square_sum: tuple[float, float] = (0.95, 1.1),
    points: int = 17,
) -> DomainCheck:
    """Map a domain of (mean, variance) through one layer, on a grid. The defaults are those of Klambauer et al. (2017).

    A unit whose weights have the sum omega and the sum of squares tau has the input mean omega mu and the input
    variance tau nu. If the results lie inside the domain and the norm (the largest singular value) is below 1, the
    layer is a contraction of the domain: every (mean, variance) in it goes to one fixed point in it.
    """
    largest_mean = max(map(abs, mean)) * max(map(abs, weight_sum))
    means = np.linspace(-largest_mean, largest_mean, points)
    variances = np.linspace(variance[0] * weight_square_sum[0], variance[1] * weight_square_sum[1], points)
    grid = [{"mean": float(m), "variance": float(v)} for m in means for v in variances]
    found = [moments(function, alpha, **at) for at in grid]
    # By the chain rule the columns are multiplied by omega and tau. The norm is largest for the largest of them.
    columns = np.array([max(map(abs, weight_sum)), weight_square_sum[1]])
    norms = [float(np.linalg.norm(np.array(jacobian(function, alpha, **at)) * columns, 2)) for at in grid]
    return DomainCheck(
        (min(m for m, _ in found), max(m for m, _ in found)),
        (min(v for _, v in found), max(v for _, v in found)),
        max(norms),
    )


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

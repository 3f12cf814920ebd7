"""The constants of self-normalising ISRLU, and of the dropout that goes with it.

The quadrature is the trapezoidal rule in t, x = +-sigma e^t, for each sign separately, so that a kink at 0 does no
harm. In t the poles of the activations are at a distance of pi/2 from the real axis for every alpha, and the normal
density decays within pi/4 of the axis. The error is then about exp(-2 pi (pi/4) / h): 1e-22 for the step h = 3/32.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from isrlu._checks import check_alpha, check_finite

SISRLU_ALPHA = 0.70832
"""The default alpha of sisrlu. lambda beta / sqrt(alpha) = 1.7581: it then saturates where SELU does."""

STEP = 3 / 32  # exact in binary, so that all steps are equal
# x / sigma > 0. Below e^-40 an integrand adds nothing, above e^3 the density is 0.
POSITIVE = np.exp(np.arange(-40, 3, STEP, dtype=np.longdouble))


class Constants(NamedTuple):
    """The constants of sisrlu: lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0."""

    beta: float
    lambda_: float


class DropoutConstants(NamedTuple):
    """What dropout makes of x: `dropped` if the element is dropped, else scale x + shift."""

    dropped: float
    scale: float
    shift: float


def sisrlu_constants(alpha: float = SISRLU_ALPHA) -> Constants:
    """beta and lambda, for which sisrlu(z) has mean 0 and variance 1.

    beta = E[z+] / E[z- / sqrt(1 + alpha z^2)] and lambda^-2 = 1/2 + beta^2 E[z-^2 / (1 + alpha z^2)], where z is
    standard normal, z+ = max(z, 0) and z- = max(-z, 0). alpha = 0 gives exactly (1, 1), the identity.

    >>> beta, lambda_ = sisrlu_constants(1.0)
    >>> round(beta, 5), round(lambda_, 5)
    (1.52514, 1.05383)
    """
    beta, lambda_ = extended_constants(check_alpha(alpha))
    return Constants(float(beta), float(lambda_))


@functools.lru_cache
def extended_constants(alpha: float) -> tuple[np.longdouble, np.longdouble]:
    """beta and lambda in long double, so that they are correct to the last bit when rounded to float64."""
    if alpha == 0:
        return np.longdouble(1), np.longdouble(1)
    curve = POSITIVE / np.hypot(1, np.sqrt(np.longdouble(alpha)) * POSITIVE)
    density = POSITIVE * STEP * np.exp(-POSITIVE * POSITIVE / 2)  # times dt; without 1 / sqrt(2 pi)
    beta = 1 / np.sum(curve * density)
    # The sum of density x^2 is sqrt(2 pi) / 2, as the second moment of one half: the divisor without a digit of pi.
    second = np.sum((beta * curve) ** 2 * density) / np.sum(POSITIVE**2 * density)
    return beta, np.sqrt(2 / (1 + second))


def dropout_constants(p: float, alpha: float = SISRLU_ALPHA) -> DropoutConstants:
    """Dropout that keeps mean 0 and variance 1, as AlphaDropout does for SELU.

    A dropped element becomes s = -lambda beta / sqrt(alpha), where sisrlu saturates. If x has mean 0 and variance 1 and
    is kept with probability q = 1 - p, the result has the mean p s and the variance q + q p s^2. The line
    scale x + shift brings them back to 0 and 1.
    """
    given, p = p, p if isinstance(p, bool) else check_finite("the probability of dropping", p)
    if isinstance(p, bool) or not 0 <= p < 1:
        raise ValueError(f"the probability of dropping must be at least 0 and below 1, got {given!r}")
    if check_alpha(alpha) == 0:
        raise ValueError(f"alpha must be above 0, got {alpha!r}: with alpha 0 sisrlu does not saturate")
    beta, lambda_ = sisrlu_constants(alpha)
    saturation = -lambda_ * beta / math.sqrt(alpha)
    scale = 1 / math.sqrt((1 - p) * (1 + p * saturation * saturation))
    shift = -scale * p * saturation
    return DropoutConstants(scale * saturation + shift, scale, shift)

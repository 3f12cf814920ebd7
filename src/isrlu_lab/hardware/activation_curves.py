"""The activation functions as data, with alpha = 1: one curve for |x|, and what happens to positive x."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isrlu_lab.hardware.formats import Float, Reals


@dataclass(frozen=True)
class Curve:
    """f(-m) = -magnitude(m) for m >= 0; f(m) = magnitude(m) if odd, else m. It rises from m near 0 to 1."""

    name: str
    odd: bool
    magnitude: Callable[[Reals], Reals]

    def exact(self, x: Reals) -> Reals:
        """f in float64, for NaN and infinities too."""
        return np.where((x > 0) & (not self.odd), x, np.copysign(self.magnitude(np.abs(x)), x))


def _inverse_root(m: Reals) -> Reals:
    return np.minimum(m, 1e300) / np.hypot(1.0, np.minimum(m, 1e300))  # infinity / infinity would be NaN


CURVES = {
    curve.name: curve
    for curve in (
        Curve("isrlu", False, _inverse_root),
        Curve("isru", True, _inverse_root),
        Curve("elu", False, lambda m: -np.expm1(-m)),
        Curve("tanh", True, np.tanh),
    )
}


def find_region(curve: Curve, number: Float, tolerance: float) -> range:
    """The biased exponents where the curve is neither |x| itself nor its limit 1, to within `tolerance` ulp."""
    words = np.arange(number.inf)
    x = number.decode(words)
    y = curve.magnitude(x)
    bent, below = (np.abs(y - simple) > tolerance * number.ulp(y) for simple in (x, np.ones_like(x)))
    return range(int(words[bent][0]) >> number.mantissa, (int(words[below][-1]) >> number.mantissa) + 1)

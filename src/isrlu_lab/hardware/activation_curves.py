"""The activation functions as data, with alpha = 1: one curve for |x|, and what happens to positive x."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isrlu_lab.hardware.formats import Float, Reals, Words


@dataclass(frozen=True)
class Curve:
    """f(-m) = -magnitude(m) for m >= 0; f(m) = magnitude(m) if odd, else m. It rises from m near 0 to 1."""

    name: str
    odd: bool
    magnitude: Callable[[Reals], Reals]

    def exact(self, x: Reals) -> Reals:
        """f in float64, for NaN and infinities too."""
        curved = np.where(np.isinf(x), np.copysign(1.0, x), np.copysign(self._finite(np.abs(x)), x))
        return np.where((x > 0) & (not self.odd), x, curved)

    def _finite(self, m: Reals) -> Reals:
        return self.magnitude(np.where(np.isinf(m), 1.0, m))


def _inverse_root(m: Reals) -> Reals:
    return m / np.hypot(1.0, m)


CURVES = {
    curve.name: curve
    for curve in (
        Curve("isrlu", False, _inverse_root),
        Curve("isru", True, _inverse_root),
        Curve("elu", False, lambda m: -np.expm1(-m)),
        Curve("tanh", True, np.tanh),
    )
}


@dataclass(frozen=True)
class Region:
    """The biased exponents, first to last, where the curve is neither |x| itself nor its limit 1."""

    first: int
    last: int

    def words(self, number: Float) -> Words:
        """All magnitudes of the region."""
        return np.arange(self.first << number.mantissa, self.last + 1 << number.mantissa)


def find_region(curve: Curve, number: Float, tolerance: float) -> Region:
    """Outside of the region, |x| or 1 is within `tolerance` ulp of the curve."""
    words = np.arange(number.inf)
    x = number.decode(words)
    y = curve.magnitude(x)
    bent, below = (np.abs(y - simple) > tolerance * number.ulp(y) for simple in (x, np.ones_like(x)))
    first, last = words[bent][0], words[below][-1]
    return Region(int(first) >> number.mantissa, int(last) >> number.mantissa)

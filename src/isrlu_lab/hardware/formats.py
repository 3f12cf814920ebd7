"""Number formats as data: IEEE-like floats and fixed point. A word is the bit pattern of a number."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isrlu_lab.errors import UserError

Words = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Float:
    """Sign, `exponent` bits, `mantissa` bits; subnormals, infinities and NaN as in IEEE 754."""

    name: str
    exponent: int
    mantissa: int

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def inf(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self) -> int:
        return self.inf | 1 << self.mantissa - 1

    @property
    def sign(self) -> int:
        return 1 << self.width - 1

    def decode(self, words: Words) -> Reals:
        """The numbers that the words stand for, exact in float64."""
        magnitude = words & (self.sign - 1)
        exponent = np.maximum(magnitude >> self.mantissa, 1)
        significand = magnitude - ((exponent - 1) << self.mantissa)
        value = np.ldexp(significand.astype(np.float64), exponent - self.bias - self.mantissa)
        value = np.where(magnitude > self.inf, np.nan, np.where(magnitude == self.inf, np.inf, value))
        return np.where(words & self.sign, -value, value)

    def _binade(self, values: Reals) -> Words:
        """floor(log2 |value|), at least that of the smallest normal number."""
        return np.frexp(np.maximum(np.abs(values), 2.0 ** (1 - self.bias)))[1] - 1

    def ulp(self, values: Reals) -> Reals:
        """The distance of the numbers of this format around each value."""
        return np.ldexp(1.0, self._binade(values) - self.mantissa)

    def position(self, values: Reals) -> Reals:
        """Words of values >= 0 before rounding: linear between neighbouring numbers of the format."""
        exponent = self._binade(values)
        return np.ldexp(values, self.mantissa - exponent) + (exponent + self.bias - 1) * 2.0**self.mantissa

    def encode(self, values: Reals) -> Words:
        """The nearest words; ties go to even."""
        words = np.minimum(np.rint(self.position(np.nan_to_num(np.abs(values), posinf=3e300))), self.inf)
        return np.where(np.isnan(values), self.nan, words.astype(np.int64) | np.signbit(values) * self.sign)


@dataclass(frozen=True)
class Fixed:
    """Two's complement with `fraction` bits after the point: ap_fixed<width, width - fraction>."""

    name: str
    width: int
    fraction: int

    def decode(self, words: Words) -> Reals:
        half = 1 << self.width - 1
        return ((words + half & 2 * half - 1) - half) / 2.0**self.fraction

    def ulp(self, values: Reals) -> Reals:
        return np.full(np.shape(values), 2.0**-self.fraction)

    def encode(self, values: Reals) -> Words:
        """The nearest words, saturated; ties go to even."""
        half = 1 << self.width - 1
        return np.clip(np.rint(values * 2.0**self.fraction), -half, half - 1).astype(np.int64) & 2 * half - 1


Format = Float | Fixed
BF16, FP16, FP32 = Float("bf16", 8, 7), Float("fp16", 5, 10), Float("fp32", 8, 23)
FORMATS = {each.name: each for each in (BF16, FP16, FP32, Fixed("int8", 8, 4), Fixed("int16", 16, 12))}


def find_format(name: str) -> Format:
    """A format by name; "fixed16.10" has 16 bits, 10 of them after the point."""
    if match := re.fullmatch(r"fixed(\d+)\.(\d+)", name):
        width, fraction = map(int, match.groups())
        if 4 <= width <= 24 and fraction < width:
            return Fixed(name, width, fraction)
        raise UserError(f"format {name}: give 4 to 24 bits, and fewer of them after the point")
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise UserError(f"unknown format {name!r}: known are {known} and fixedW.F (W bits, F of them after the point)")
    return FORMATS[name]


def all_words(form: Format) -> Words:
    return np.arange(1 << form.width, dtype=np.int64)


def ulps(form: Format, words: Words, exact: Reals) -> Reals:
    """Errors in units in the last place; 0 where both are the same infinity or both NaN."""
    found = form.decode(words)
    same = (found == exact) | (np.isnan(found) & np.isnan(exact))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(found - exact) / form.ulp(np.where(np.isfinite(exact), exact, 1.0)))

"""Piecewise linear: in each segment of a binade, y = base + slope * low, a line in the input's low bits.

The line is in fixed point. Within a binade of x, y is in one binade or passes to the next one, so that one shift by one
bit makes it a float. The number of segments per binade, then the width of the slopes, are the smallest for which
every result is within 1 ulp (faithful).
"""

import numpy as np
from amaranth.hdl import Module, Mux, Value

from isrlu_lab.hardware.activation_curves import Curve
from isrlu_lab.hardware.formats import Float, Reals, Words
from isrlu_lab.hardware.stream import Cut, concat, look_up, wire
from isrlu_lab.hardware.table_unit import CurveUnit

EXTRA = 2  # bits of the line beyond the mantissa of the lower binade


class LinearUnit(CurveUnit):
    """y = base + slope * low: error below 1 ulp, monotone."""

    form = "linear"
    tolerance = 0.99
    cuts = 2

    def __init__(self, curve: Curve, number: Float, *, pipelined: bool = False):
        super().__init__(curve, number, pipelined=pipelined)
        exact = curve.magnitude(number.decode(self.inside_words))
        starts = exact[:: 1 << number.mantissa]
        self.binade = number.position(starts).astype(np.int64) >> number.mantissa  # biased exponent of y, the lower one
        for low_bits in range(number.mantissa - 1, -1, -1):
            for shift in range(low_bits + 1):
                self.low_bits, self.shift = low_bits, shift
                if fit := self._fit(exact.reshape(-1, 1 << low_bits), int(self.inside_words[0]) - 1):
                    self.base, self.slope = map(np.array, zip(*fit, strict=True))
                    return
        raise AssertionError("segments of one word fit every curve")

    def inside(self, m: Module, cut: Cut, magnitude: Value, *others: Value) -> list[Value]:
        bits = self.number.mantissa
        segment, low = self.index(m, magnitude, self.low_bits), wire(m, "low", magnitude[: self.low_bits])
        base = look_up(m, "base", self.base, segment)
        slope = look_up(m, "slope", self.slope, segment)
        binade = look_up(m, "binade", self.binade, self.index(m, magnitude, bits))
        base, slope, low, binade, *rest = cut(base, slope, low, binade, *others)
        line = wire(m, "line", (base + (slope * low >> self.shift))[EXTRA : EXTRA + bits + 2])
        upper = line[-1]
        joined = concat((binade + upper)[: self.number.exponent], Mux(upper, line[1:], line)[:bits])
        return cut(wire(m, "joined", joined), *rest)

    def inside_model(self, magnitudes: Words) -> Words:
        offset = magnitudes - magnitudes[0]
        segment, low = offset >> self.low_bits, offset & (1 << self.low_bits) - 1
        line = self.base[segment] + (self.slope[segment] * low >> self.shift)
        return self._word(line, self.binade[offset >> self.number.mantissa])

    def _word(self, line: Words, binade: Words) -> Words:
        bits, line = self.number.mantissa, line >> EXTRA
        return (binade - 1 << bits) + np.where(line >> bits + 1, (line >> 1) + (1 << bits), line)

    def _fit(self, segments: Reals, before: int) -> list[tuple[int, int]] | None:
        """(base, slope) of each segment: the least error among those that rise from `before` to the limit.

        segments: exact results. None if the error of a segment reaches 1 ulp.
        """
        found = []
        low = np.arange(segments.shape[1])
        bases, slopes = np.meshgrid(np.arange(-4, 9), np.arange(-1, 3))
        for number, exact in enumerate(segments):
            binade = self.binade[number * len(self.binade) // len(segments)]
            line = np.ldexp(exact, self.number.bias + self.number.mantissa + EXTRA - int(binade))
            chord = (line[-1] - line[0]) / max(low[-1], 1) * 2**self.shift
            base, slope = int(line[0]) + bases.ravel(), np.maximum(int(chord) + slopes.ravel(), 0)
            y = self._word(base[:, None] + (np.outer(slope, low) >> self.shift), binade)
            error = np.abs(y - self.number.position(exact)).max(axis=1)
            error[(y[:, 0] < before) | (y[:, -1] > self.limit)] = np.inf
            best = np.argmin(error)
            if error[best] >= 1:
                return None
            found.append((int(base[best]), int(slope[best])))
            before = y[best, -1]
        return found

"""One table: every input whose result is neither itself nor the limit 1 has an entry, correctly rounded."""

import numpy as np
from amaranth.hdl import Module, Mux, Value

from isrlu_lab.hardware.activation_curves import Curve, find_region
from isrlu_lab.hardware.formats import Fixed, Float, Reals, Words
from isrlu_lab.hardware.stream import Cut, Unit, concat, look_up, wire


class CurveUnit(Unit):
    """A curve in a float format: sign and special values here, magnitudes of the region in `inside`."""

    number: Float
    tolerance = 0.5  # ulp, outside of the region

    def __init__(self, curve: Curve, number: Float, *, pipelined: bool = False):
        super().__init__(number, pipelined=pipelined)
        self.curve, self.function = curve, curve.name
        self.region = find_region(curve, number, self.tolerance)
        self.inside_words = np.arange(self.region.start << number.mantissa, self.region.stop << number.mantissa)
        self.limit = number.bias << number.mantissa  # the word of 1

    def exact(self, x: Reals) -> Reals:
        return self.curve.exact(x)

    def inside(self, m: Module, cut: Cut, magnitude: Value, *others: Value) -> list[Value]:
        """The result for a magnitude of the region, then the other values of the same cycle."""
        raise NotImplementedError

    def inside_model(self, magnitudes: Words) -> Words:
        raise NotImplementedError

    def datapath(self, m: Module, cut: Cut, *words: Value) -> Value:
        x, bits = words[0], self.number.mantissa
        magnitude, negative = x[:-1], x[-1]
        exponent = magnitude[bits:]
        same = (exponent < self.region.start) | (magnitude > self.number.inf)  # NaN stays as it is
        if not self.curve.odd:
            same |= ~negative
        same, limit = wire(m, "same", same), wire(m, "limit", exponent > self.region[-1])
        y, x, same, limit = self.inside(m, cut, magnitude, x, same, limit)
        y = wire(m, "y", Mux(limit, self.limit, y), self.number.width - 1)
        return Mux(same, x, concat(x[-1], y))

    def model(self, words: Words) -> Words:
        sign, magnitude = words & self.number.sign, words & self.number.sign - 1
        table = np.arange(self.number.sign)
        table[self.region.stop << self.number.mantissa : self.number.inf + 1] = self.limit
        table[self.inside_words] = self.inside_model(self.inside_words)
        return np.where((sign == 0) & (not self.curve.odd), words, sign | table[magnitude])

    def index(self, m: Module, magnitude: Value, drop: int = 0) -> Value:
        """The position of a magnitude in the region, without its `drop` lowest bits."""
        bits = self.number.mantissa - drop
        largest = (len(self.region) << bits) - 1
        return wire(m, f"index_{bits}", magnitude[drop:] - (self.region.start << bits), largest.bit_length())


class TableUnit(CurveUnit):
    """y = table[|x|]: error at most 0.5 ulp, monotone."""

    form = "table"

    def inside_model(self, magnitudes: Words) -> Words:
        return self.number.encode(self.curve.magnitude(self.number.decode(magnitudes)))

    def inside(self, m: Module, cut: Cut, magnitude: Value, *others: Value) -> list[Value]:
        return cut(look_up(m, "entries", self.inside_model(self.inside_words), self.index(m, magnitude)), *others)


class FixedTableUnit(Unit):
    """y = table[x >> shift], at most 1024 entries: hls4ml's kind of table. Exact to 0.5 ulp where shift is 0.

    With a shift, an entry serves 2^shift inputs and holds the middle of the results at their ends.
    """

    form = "table"
    number: Fixed
    index_bits = 10

    def __init__(self, curve: Curve, number: Fixed, *, pipelined: bool = False):
        super().__init__(number, pipelined=pipelined)
        self.curve, self.function = curve, curve.name
        indexed = number.width if curve.odd else number.width - 1  # the sign is no index if positive x are kept
        self.shift = max(0, indexed - self.index_bits)
        self.size = 1 << indexed - self.shift
        low = -(1 << number.width - 1) + (np.arange(self.size, dtype=np.int64) << self.shift)
        first, last = (curve.exact(number.decode(word)) for word in (low, low + (1 << self.shift) - 1))
        self.entries = number.encode((first + last) / 2)

    def exact(self, x: Reals) -> Reals:
        return self.curve.exact(x)

    def datapath(self, m: Module, cut: Cut, *words: Value) -> Value:
        x = words[0]
        top = x[self.shift :][: self.size.bit_length() - 1]
        index = concat(~top[-1], top[:-1]) if self.curve.odd else top
        y, x = cut(look_up(m, "entries", self.entries, index), x)
        return y if self.curve.odd else Mux(x[-1], y, x)

    def model(self, words: Words) -> Words:
        half = 1 << self.number.width - 1
        index = (words + half & 2 * half - 1) >> self.shift
        looked_up = self.entries[np.minimum(index, self.size - 1)]
        return looked_up if self.curve.odd else np.where(words & half, looked_up, words)

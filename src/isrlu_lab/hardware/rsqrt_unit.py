"""1/sqrt(x): the exponent is halved, the mantissa comes from a table."""

import numpy as np
from amaranth.hdl import Const, Module, Mux, Value

from isrlu_lab.hardware.formats import Float, Reals, Words
from isrlu_lab.hardware.stream import Cut, Unit, concat, look_up, wire


def rsqrt_table(index_bits: int, entry_bits: int, *, centred: bool = True) -> Words:
    """(2/sqrt(d) - 1) 2^entry_bits for d in [2, 4), then for d in [1, 2), 2^index_bits entries each.

    centred: the entry is for the middle of its d's; else for the lowest of them.
    """
    steps = (np.arange(1 << index_bits) + (0.5 if centred else 0.0)) / (1 << index_bits)
    d = np.concatenate([2 + 2 * steps, 1 + steps])
    return np.rint((2 / np.sqrt(d) - 1) * (1 << entry_bits)).astype(np.int64)


class RsqrtUnit(Unit):
    """Error at most 0.5 ulp if the table has all mantissas; to 12 bits in float32. Monotone.

    Subnormal x count as 0: the result is infinity. Negative x give NaN.
    """

    function = "rsqrt"
    form = "table"
    number: Float

    def __init__(self, number: Float, *, pipelined: bool = False):
        super().__init__(number, pipelined=pipelined)
        self.index_bits = min(number.mantissa, 11)
        self.entry_bits = min(number.mantissa, 12)
        self.table = rsqrt_table(self.index_bits, self.entry_bits, centred=self.index_bits < number.mantissa)

    def exact(self, x: Reals) -> Reals:
        """1/sqrt(x) in float64, with subnormal numbers as 0."""
        flushed = np.where(np.abs(x) < 2.0 ** (1 - self.number.bias), np.copysign(0.0, x), x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(flushed == 0, np.copysign(np.inf, x), 1 / np.sqrt(flushed))

    def datapath(self, m: Module, cut: Cut, *words: Value) -> Value:
        number, low = self.number, self.number.mantissa - self.index_bits
        index = words[0][low : low + self.index_bits + 1]
        entry, x = cut(look_up(m, "entries", self.table, index), words[0])
        magnitude, exponent = x[:-1], x[number.mantissa : -1]
        carry = entry[self.entry_bits :].any()  # 1/sqrt(1) = 1 is in the next binade
        halved = (3 * number.bias - 3) // 2 - (exponent - 1 >> 1) + carry
        padding = Const(0, number.mantissa - self.entry_bits)
        root = wire(m, "root", concat(halved[: number.exponent], entry[: self.entry_bits], padding))
        positive = Mux(exponent == 0, number.inf, Mux(magnitude == number.inf, 0, root))
        invalid = wire(m, "invalid", (magnitude > number.inf) | (x[-1] & (exponent != 0)))
        return Mux(invalid, number.nan, concat(x[-1], positive))

    def model(self, words: Words) -> Words:
        number = self.number
        sign, magnitude = words & number.sign, words & number.sign - 1
        exponent = magnitude >> number.mantissa
        entry = self.table[magnitude >> number.mantissa - self.index_bits & (2 << self.index_bits) - 1]
        halved = (3 * number.bias - 3) // 2 - (exponent - 1 >> 1)
        root = (halved << number.mantissa) + (entry << number.mantissa - self.entry_bits)
        positive = np.where(exponent == 0, number.inf, np.where(magnitude == number.inf, 0, root))
        return np.where((magnitude > number.inf) | (sign != 0) & (exponent != 0), number.nan, sign | positive)

"""ISRLU computed as its formula says: square, add 1, inverse square root by table, multiply."""

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Value

from isrlu_lab.hardware.activation_curves import CURVES
from isrlu_lab.hardware.formats import Float, Words
from isrlu_lab.hardware.ieee import leading_zeros
from isrlu_lab.hardware.rsqrt_unit import rsqrt_table
from isrlu_lab.hardware.stream import Cut, concat, look_up, wire
from isrlu_lab.hardware.table_unit import CurveUnit


class ComputedUnit(CurveUnit):
    """x / sqrt(1 + x^2): error below 1 ulp; monotone only as far as the roundings of root and product let it.

    d = 1 + x^2 in fixed point, with `pairs` pairs of bits before the point and `below` bits after it. Shifted by whole
    pairs into [1, 4), d is the index of the table.
    """

    form = "computed"
    monotone = False
    cuts = 3

    def __init__(self, number: Float, *, pipelined: bool = False):
        super().__init__(CURVES["isrlu"], number, pipelined=pipelined)
        self.below = self.index_bits = number.mantissa + 1
        self.root_bits = number.mantissa + 2
        self.table = rsqrt_table(self.index_bits, self.root_bits)
        largest = self.region[-1] - number.bias
        self.pairs = largest + 1
        self.scale = 2 * largest - 2 * number.mantissa + self.below  # of the square of the largest binade

    def inside(self, m: Module, cut: Cut, magnitude: Value, *others: Value) -> list[Value]:
        bits = self.number.mantissa
        exponent, x = (
            wire(m, "exponent", magnitude[bits:]),
            wire(m, "significand", concat(Const(1, 1), magnitude[:bits])),
        )
        distance = wire(m, "distance", self.region[-1] - exponent, (len(self.region) - 1).bit_length())
        square, distance, x, exponent, *rest = cut(wire(m, "square", x * x), distance, x, exponent, *others)
        square = (square << self.scale if self.scale >= 0 else square >> -self.scale) >> concat(distance, Const(0, 1))
        d = wire(m, "d", (square + (1 << self.below))[: self.below + 2 * self.pairs])
        used = Cat(d[k : k + 2].any() for k in range(self.below, len(d), 2))
        zeros = wire(m, "zeros", leading_zeros(m, used))
        d = wire(m, "d_shifted", (d << concat(zeros, Const(0, 1)))[: len(d)])
        first = Mux(d[-1], d[:-1], d << 1)[: len(d) - 1]
        entry = look_up(m, "entries", self.table, concat(~d[-1], first[-self.index_bits :]))
        entry, zeros, x, exponent, *rest = cut(entry, zeros, x, exponent, *rest)
        product = wire(m, "product", x * concat(Const(1, 1), entry))
        upper = wire(m, "upper", product[-1])
        product = wire(m, "normal", Mux(upper, product, product << 1), len(product))
        product, upper, zeros, exponent, *rest = cut(product, upper, zeros, exponent, *rest)
        fraction, half = product[-1 - bits : -1], product[-2 - bits]
        y = concat((exponent + zeros + upper - self.pairs)[: self.number.exponent], fraction) + half
        return [y[: self.number.width - 1], *rest]

    def inside_model(self, magnitudes: Words) -> Words:
        bits = self.number.mantissa
        exponent, x = magnitudes >> bits, magnitudes & (1 << bits) - 1 | 1 << bits
        square = np.ldexp(x.astype(np.float64) ** 2, self.scale - 2 * (self.region[-1] - exponent))
        d = np.floor(square).astype(np.int64) + (1 << self.below)
        k = (np.frexp(d)[1] - 1 - self.below) // 2  # d is in [4^k, 4^(k + 1))
        odd = (d >> self.below + 2 * k) > 1
        mantissa = np.ldexp(d, self.index_bits - self.below - 2 * k - odd).astype(np.int64)
        entry = self.table[mantissa - (1 << self.index_bits) * odd]
        y = np.ldexp(x * (entry + (1 << self.root_bits)), -self.root_bits).astype(np.float64)
        upper = y >= 2 << bits
        return (exponent - k - 2 + upper << bits) + np.floor(y / (1 + upper) + 0.5).astype(np.int64)

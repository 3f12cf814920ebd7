"""a * b + c, fused: one rounding, to nearest even, with subnormal numbers, infinities and NaN as in IEEE 754."""

from amaranth.hdl import Cat, Const, Module, Mux, Value

from isrlu_lab.hardware.formats import Float
from isrlu_lab.hardware.ieee import normalise, round_and_pack, unpack
from isrlu_lab.hardware.stream import Cut, Unit, concat, wire

GUARD = 2  # bits below the product


class FmaUnit(Unit):
    """Exact, then rounded once.

    The product stays in place and c moves. At distance 0 there are 2 bits between c, above, and the product:

        0 | c: p bits | 2 bits | product: 2p bits | GUARD bits | sticky

    A c further above leaves the product below its rounding; a c further below ends in the sticky bit.
    """

    function = "fma"
    form = "computed"
    number: Float
    operands = 3
    cuts = 2

    def datapath(self, m: Module, cut: Cut, *words: Value) -> Value:
        number, p = self.number, self.number.mantissa + 1
        window = 1 + p + 2 + 2 * p + GUARD
        a, b, c = (unpack(number, word) for word in words)
        sign = a.sign ^ b.sign
        subtract = sign ^ c.sign
        top = wire(m, "top", a.exponent + b.exponent + (p + 3 - number.bias))  # of c at distance 0
        distance = wire(m, "distance", top - c.exponent)
        above = (distance < 0) | a.zero | b.zero
        limited = Mux(above, 0, Mux(distance > window - 1, window - 1, distance))[: window.bit_length()]
        # The last p bits are below the window.
        moved = wire(m, "moved", Cat(Const(0, window - 1), c.significand) >> limited)
        addend = Cat(moved[:p].any(), moved[p:])
        exponent = (Mux(above, c.exponent, top) + 1)[: number.exponent + 2]
        infinite = a.inf | b.inf
        invalid = (a.inf & b.zero) | (a.zero & b.inf) | (infinite & c.inf & subtract)
        nan = wire(m, "nan", a.nan | b.nan | c.nan | invalid)
        inf, inf_sign = infinite | c.inf, Mux(infinite, sign, c.sign)
        product = Cat(Const(0, GUARD + 1), a.significand * b.significand)
        product, addend, subtract, *rest = cut(product, addend, subtract, exponent, sign, nan, inf, inf_sign)
        exponent, sign, nan, inf, inf_sign = rest
        total = wire(m, "total", Mux(subtract, product - addend, product + addend))
        negative = total[-1] & subtract
        size = wire(m, "size", Mux(negative, -total, total)[: window + 1])
        sign = Mux(subtract & ~size.any(), 0, sign ^ negative)
        size, exponent, sign, nan, inf, inf_sign = cut(size, exponent, sign, nan, inf, inf_sign)
        wide, field = normalise(m, exponent, size)
        rounded = round_and_pack(m, number, sign, field, wide, Const(0, 1))
        return Mux(nan, number.nan, Mux(inf, concat(inf_sign, Const(number.inf, number.width - 1)), rounded))

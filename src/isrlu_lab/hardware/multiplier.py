"""a * b as IEEE 754 has it: rounded to nearest even, with subnormal numbers, infinities and NaN."""

from amaranth.hdl import Const, Module, Mux, Value

from isrlu_lab.hardware.formats import Float
from isrlu_lab.hardware.ieee import leading_zeros, round_and_pack, unpack
from isrlu_lab.hardware.stream import Cut, Unit, concat, wire


class MultiplierUnit(Unit):
    """Exact, then rounded once."""

    function = "multiply"
    form = "computed"
    number: Float
    operands = 2
    cuts = 2

    def datapath(self, m: Module, cut: Cut, *words: Value) -> Value:
        number, wide = self.number, 2 * self.number.mantissa + 2
        a, b = (unpack(number, word) for word in words)
        product = wire(m, "product", a.significand * b.significand)
        exponent = wire(m, "exponent", a.exponent + b.exponent - (number.bias - 1))  # of the product's top bit
        nan = wire(m, "nan", a.nan | b.nan | (a.inf & b.zero) | (a.zero & b.inf))
        product, exponent, sign, nan, inf = cut(product, exponent, a.sign ^ b.sign, nan, a.inf | b.inf)
        # One shift: left up to the leading 1, or right into the subnormal numbers. The lower half is sticky.
        zeros = wire(m, "zeros", leading_zeros(m, product))
        room = wire(m, "room", exponent - 1)
        shift = wire(m, "shift", Mux(room < zeros, Mux(room < -wide, -wide, room), zeros))
        moved = wire(m, "moved", (product << (shift + wide)[: (2 * wide).bit_length()])[: 2 * wide])
        field = Mux(room < 0, 0, room - shift)[: number.exponent + 1]
        kept, sticky, field, sign, nan, inf = cut(moved[wide:], moved[:wide].any(), field, sign, nan, inf)
        rounded = round_and_pack(m, number, sign, field, kept, sticky)
        return Mux(nan, number.nan, Mux(inf, concat(sign, Const(number.inf, number.width - 1)), rounded))

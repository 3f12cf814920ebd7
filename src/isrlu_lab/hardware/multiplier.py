"""a * b as IEEE 754 has it: rounded to nearest even, with subnormal numbers, infinities and NaN."""

from amaranth.hdl import Cat, Const, Module, Mux, Value

from isrlu_lab.hardware.formats import Float
from isrlu_lab.hardware.ieee import round_and_pack, unpack
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
        exponent = a.exponent + b.exponent - (number.bias - 1)  # of the product's top bit
        nan = a.nan | b.nan | (a.inf & b.zero) | (a.zero & b.inf)
        product, exponent, sign, nan, inf = cut(
            wire(m, "product", a.significand * b.significand),
            wire(m, "exponent", exponent),
            a.sign ^ b.sign,
            nan,
            a.inf | b.inf,
        )
        # Below the smallest normal number, the product moves right; what it loses counts as sticky.
        tiny = exponent < 1
        distance = Mux(exponent < 1 - wide, wide, 1 - exponent)[: wide.bit_length()]
        moved = wire(m, "moved", Cat(Const(0, wide), product) >> Mux(tiny, distance, 0))
        sticky, kept = moved[:wide].any(), moved[wide:]
        exponent = Mux(tiny, 1, exponent)[: number.exponent + 1]
        kept, sticky, exponent, sign, nan, inf = cut(kept, sticky, exponent, sign, nan, inf)
        rounded = round_and_pack(m, number, sign, exponent, kept, sticky)
        return Mux(nan, number.nan, Mux(inf, concat(sign, Const(number.inf, number.width - 1)), rounded))

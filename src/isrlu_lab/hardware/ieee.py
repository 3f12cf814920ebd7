"""What the IEEE units share: unpacking, counting leading zeros, rounding to nearest even. With subnormal numbers."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Value

from isrlu_lab.hardware.formats import Float
from isrlu_lab.hardware.stream import concat, wire


@dataclass
class Unpacked:
    """|x| = significand 2^(exponent - bias - mantissa bits). Subnormal numbers have exponent 1 and no leading 1."""

    sign: Value
    exponent: Value
    significand: Value
    inf: Value
    nan: Value
    zero: Value


def unpack(number: Float, word: Value) -> Unpacked:
    fraction, exponent, sign = word[: number.mantissa], word[number.mantissa : -1], word[-1]
    normal, top = exponent.any(), exponent.all()
    return Unpacked(
        sign=sign,
        exponent=concat(exponent[1:], exponent[0] | ~normal),
        significand=concat(normal, fraction),
        inf=top & ~fraction.any(),
        nan=top & fraction.any(),
        zero=~normal & ~fraction.any(),
    )


def leading_zeros(m: Module, value: Value) -> Value:
    """The number of zeros above the highest 1, by halves. For 0: the width, rounded up to a power of 2."""
    if len(value) == 1:
        return ~value
    width = 1 << (len(value) - 1).bit_length()
    padded = Cat(Const(0, width - len(value)), value)
    halves = padded[width // 2 :], padded[: width // 2]
    high, low = (wire(m, f"zeros_of_{width // 2}", leading_zeros(m, half)) for half in halves)
    return Cat(Mux(high[-1], low[:-1], high[:-1]), high[-1] & ~low[-1], high[-1] & low[-1])


def normalise(m: Module, exponent: Value, wide: Value) -> tuple[Value, Value]:
    """`wide` with its leading 1 at the top, or as far up as a subnormal number allows; then the exponent field less 1.

    exponent: of the top bit, at least 1.
    """
    zeros = wire(m, "zeros", leading_zeros(m, wide))
    room = wire(m, "room", (exponent - 1)[: len(exponent)])
    shift = wire(m, "shift", Mux(zeros > room, room, zeros)[: len(zeros)])
    return wire(m, "shifted", (wide << shift)[: len(wide)]), (room - shift)[: len(room)]


def round_and_pack(m: Module, number: Float, sign: Value, field: Value, wide: Value, sticky: Value) -> Value:
    """The word of a normalised number. field: its exponent field less 1. sticky: something nonzero is below."""
    kept, rest = wide[-number.mantissa - 1 :], wide[: -number.mantissa - 1]
    up = rest[-1] & (rest[:-1].any() | sticky | kept[0])
    # The leading 1 of a normal number adds 1 to the field. A carry of the rounding adds 1 more.
    magnitude = wire(m, "rounded", (field << number.mantissa) + kept + up)
    word = Mux(magnitude >= number.inf, number.inf, magnitude)[: number.width - 1]
    return concat(sign, Mux(kept.any() | up, word, 0)[: number.width - 1])

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
    high, low = (wire(m, f"zeros_{width // 2}", leading_zeros(m, half)) for half in halves)
    return Cat(Mux(high[-1], low[:-1], high[:-1]), high[-1] & ~low[-1], high[-1] & low[-1])


def round_and_pack(m: Module, number: Float, sign: Value, exponent: Value, wide: Value, sticky: Value) -> Value:
    """The word of (-1)^sign wide 2^(exponent - bias - (len(wide) - 1)), where the exponent is at least 1.

    The leading 1 is moved to the top, or as far as a subnormal number allows. sticky: something nonzero is below.
    """
    zeros = wire(m, "zeros", leading_zeros(m, wide))
    room = wire(m, "room", (exponent - 1)[: len(exponent)])
    shift = wire(m, "shift", Mux(zeros > room, room, zeros)[: len(zeros)])
    shifted = wire(m, "shifted", (wide << shift)[: len(wide)])
    kept = shifted[-number.mantissa - 1 :]
    rest = shifted[: -number.mantissa - 1]
    up = rest[-1] & (rest[:-1].any() | sticky | kept[0])
    magnitude = wire(m, "rounded", ((room - shift) << number.mantissa) + kept + up)
    large = magnitude >= number.inf
    word = Mux(large, number.inf, magnitude)[: number.width - 1]
    return concat(sign, Mux(wide.any(), word, 0)[: number.width - 1])

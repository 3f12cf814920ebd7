"""`Unit`: a function as a stream of words in and a stream of words out, with valid and ready (Amaranth streams)."""

from collections.abc import Callable

from amaranth.hdl import Cat, Module, Shape, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from isrlu_lab.hardware.formats import Format, Reals, Words

Cut = Callable[..., list[Value]]
"""cut(a, b, ...): the same values behind pipeline registers, or at once in a unit without them.

The register behind stage 1 of a wire `line` is `line_1`.
"""


class Unit(wiring.Component):
    """One result per cycle, in order. A word moves when valid and ready are both 1; nothing is lost or repeated.

    pipelined: put registers at the cuts of the datapath.
    latency: cycles from a word to its result: the output register, and one for each cut if pipelined.
    """

    _MustUse__silence = True  # no warning about a unit of which only the model is used
    function: str
    form: str
    operands = 1
    cuts = 1  # where `datapath` calls cut
    monotone = True  # in x; what the units of one operand state

    def __init__(self, number: Format, *, pipelined: bool = False):
        self.number, self.pipelined = number, pipelined
        self.latency = 1 + (self.cuts if pipelined else 0)
        ports = {"i": (In, self.operands * number.width), "o": (Out, number.width)}
        super().__init__({name: way(stream.Signature(unsigned(width))) for name, (way, width) in ports.items()})

    @property
    def name(self) -> str:
        pipelined = "_pipelined" if self.pipelined else ""
        return f"{self.function}_{self.number.name}_{self.form}{pipelined}".replace(".", "_")

    def datapath(self, m: Module, cut: Cut, *words: Value) -> Value:
        """The function's logic."""
        raise NotImplementedError

    def model(self, words: Words) -> Words:
        """What the unit returns for words, in NumPy: the same tables, not the same logic."""
        raise NotImplementedError

    def exact(self, x: Reals) -> Reals:
        """The function itself, in float64."""
        raise NotImplementedError

    def elaborate(self, platform: object) -> Module:
        m = Module()
        advance = Signal()  # all registers move at once, unless the receiver is not ready for a result
        m.d.comb += [advance.eq(self.o.ready | ~self.o.valid), self.i.ready.eq(advance)]

        valid = [self.i.valid]  # of each stage

        def register(value: Value, name: str) -> Signal:
            held = Signal(Shape.cast(value.shape()), name=f"{name}_{len(valid)}")
            with m.If(advance):
                m.d.sync += held.eq(value)
            return held

        def cut(*values: Value) -> list[Value]:
            if not self.pipelined:
                return list(values)
            held = [register(value, getattr(value, "name", "value").split("_")[0]) for value in values]
            valid.append(register(valid[-1], "valid"))
            return held

        width = self.number.width
        names = "x" if self.operands == 1 else "abc"[: self.operands]
        words = [wire(m, name, self.i.payload[k * width : (k + 1) * width]) for k, name in enumerate(names)]
        result = register(self.datapath(m, cut, *words), "result")
        m.d.comb += [self.o.payload.eq(result), self.o.valid.eq(register(valid[-1], "valid"))]
        return m


def look_up(m: Module, name: str, entries: Words, index: Value) -> Value:
    """entries[index] from a read-only memory without a clock. An index beyond the last entry gives any word."""
    shape = unsigned(int(entries.max()).bit_length() or 1)
    m.submodules[name] = memory = Memory(shape=shape, depth=len(entries), init=entries.tolist())
    port = memory.read_port(domain="comb")
    m.d.comb += port.addr.eq(index)
    return wire(m, f"{name}_data", port.data)


def wire(m: Module, name: str, value: Value, width: int | None = None) -> Signal:
    """The value under a name, unsigned and of this width if one is given.

    Amaranth writes an expression out wherever it is used, so a shared one needs a wire.
    """
    signal = Signal(Shape.cast(value.shape()) if width is None else unsigned(width), name=name)
    m.d.comb += signal.eq(value)
    return signal


def concat(*parts: Value) -> Value:
    """The parts as one word, the most significant first, as in Verilog's {a, b}."""
    return Cat(*reversed(parts))

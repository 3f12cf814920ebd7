"""All units by function, form and format."""

import difflib
from collections.abc import Iterator

import numpy as np

from isrlu_lab.errors import UserError
from isrlu_lab.hardware.activation_curves import CURVES
from isrlu_lab.hardware.computed_isrlu import ComputedUnit
from isrlu_lab.hardware.fma import FmaUnit
from isrlu_lab.hardware.formats import FP32, Fixed, Format, all_words, ulps
from isrlu_lab.hardware.linear_unit import LinearUnit
from isrlu_lab.hardware.multiplier import MultiplierUnit
from isrlu_lab.hardware.relu_unit import ReluUnit
from isrlu_lab.hardware.rsqrt_unit import RsqrtUnit
from isrlu_lab.hardware.stream import Unit
from isrlu_lab.hardware.table_unit import FixedTableUnit, TableUnit

FUNCTIONS = ("fma", "multiply", "rsqrt", *CURVES, "relu")
FORMS = ("table", "linear", "computed")


def units(number: Format, *, pipelined: bool = False) -> Iterator[Unit]:
    """The units of a format, in the order of the tables."""
    if isinstance(number, Fixed):
        for curve in CURVES.values():
            yield FixedTableUnit(curve, number, pipelined=pipelined)
        return
    yield FmaUnit(number, pipelined=pipelined)
    yield MultiplierUnit(number, pipelined=pipelined)
    yield RsqrtUnit(number, pipelined=pipelined)
    if number != FP32:  # the tables of float32 would have millions of entries
        for kind in (TableUnit, LinearUnit):
            for curve in CURVES.values():
                yield kind(curve, number, pipelined=pipelined)
        yield ComputedUnit(number, pipelined=pipelined)
    yield ReluUnit(number, pipelined=pipelined)


def max_error(unit: Unit) -> str:
    """The largest error over all inputs, in ulp; in bits for a unit that does not aim at the last bit."""
    if unit.operands > 1:
        return "exact"
    if unit.number.width <= 24:
        words = all_words(unit.number)
        return f"{ulps(unit.number, unit.model(words), unit.exact(unit.number.decode(words))).max():.2f}"
    first = np.arange(1 << 24, 1 << 25, 1 << 12, dtype=np.int64)  # two binades: every entry of rsqrt's table
    x = np.concatenate([first, first + (1 << 12) - 1])  # the error of an entry is largest at its ends
    exact = unit.exact(unit.number.decode(x))
    error = np.abs(unit.number.decode(unit.model(x)) / exact - 1).max()
    return f"{-np.log2(error):.1f} bits" if error else "0.00"


def describe(unit: Unit) -> dict[str, str]:
    """What the tables say of a unit before its costs."""
    monotone = "" if unit.operands > 1 else "yes" if unit.monotone else "no"
    names = {"format": unit.number.name, "function": unit.function, "form": unit.form}
    return names | {"max_error": max_error(unit), "monotone": monotone}


def select(
    number: Format, function: str | None = None, form: str | None = None, *, pipelined: bool = False
) -> list[Unit]:
    """The units of these names, at least one; None stands for every name."""
    for what, name, known in (("function", function, FUNCTIONS), ("form", form, FORMS)):
        if name is not None and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise UserError(f"unknown {what} {name!r}{hint}: known are {', '.join(known)}")
    found = list(units(number, pipelined=pipelined))
    chosen = [unit for unit in found if function in (unit.function, None) and form in (unit.form, None)]
    if not chosen:
        forms = {unit.form: "" for unit in found if function in (unit.function, None)}  # a dict keeps the order
        functions = {unit.function: "" for unit in found}
        others = f"--form {' or '.join(forms)}" if forms else f"--function {', '.join(functions)}"
        wanted = " ".join(filter(None, (function, form)))
        raise UserError(f"there is no {wanted} in {number.name}: give {others}, or another --format")
    return chosen

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


def find_unit(function: str, number: Format, form: str | None, *, pipelined: bool = False) -> Unit:
    """The unit of these names; without a form, the first that the function has."""
    for what, name, known in (("function", function, FUNCTIONS), ("form", form or FORMS[0], FORMS)):
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise UserError(f"unknown {what} {name!r}{hint}: known are {', '.join(known)}")
    found = [unit for unit in units(number, pipelined=pipelined) if unit.function == function]
    for unit in found:
        if form in (unit.form, None):
            return unit
    forms = ", ".join(unit.form for unit in found) or "no unit"
    raise UserError(f"there is no {function} of form {form or 'table'} in {number.name}: that format has {forms} of it")

"""`isrlu hardware`: the table of what the units cost, or the files of one unit."""

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

from isrlu_lab.errors import UserError
from isrlu_lab.hardware import export
from isrlu_lab.hardware.formats import find_format
from isrlu_lab.hardware.synthesis import measure_costs
from isrlu_lab.hardware.units import describe, select
from isrlu_lab.hardware.yosys import has
from isrlu_lab.measure.measurement import Measurement
from isrlu_lab.measure.printer import Column, Layout, Tables

ENDINGS = {".v": "Verilog", ".h": "C header"}


def write_files(
    function: str, number: str, form: str | None, out: Path, *, testbench: bool, pipelined: bool
) -> list[Path]:
    """Write the unit to FILE.v, or its table to FILE.h."""
    unit = select(find_format(number), function, form, pipelined=pipelined)[0]
    if out.suffix not in ENDINGS:
        raise UserError(f"--out {out}: give a name that ends in .v (Verilog) or .h (C header)")
    if out.suffix == ".v":
        return export.write_verilog(unit, out, testbench=testbench)
    if testbench or pipelined:
        raise UserError("--testbench and --pipelined belong to Verilog: give --out a name that ends in .v")
    return export.write_header(unit, out)


def table(number: str, function: str | None, form: str | None, seeds: int, progress: Callable[[str], None]) -> Tables:
    """Gates of each unit of the format; cells and time on an ECP5 where nextpnr is installed."""
    placed = seeds > 0 and has("nextpnr_ecp5")
    rows = []
    for unit in select(find_format(number), function, form):
        progress(unit.name)
        rows.append(Measurement(describe(unit), measure_costs(unit, range(1, seeds + 1) if placed else ())))
    names = {"unit": "function", "form": "form"}
    figures = {"max ulp": "{0.max_error}", "monotone": "{0.monotone}", "NAND2": "{0.nand2:.0f}", "levels": "{0.levels}"}
    if placed:
        figures |= {"ECP5 cells": "{0.cells}", "ECP5 ns": "{0.ns:.1f} ± {0.spread:.1f}"}
    labels = [Column(title, attrgetter(label)) for title, label in names.items()]
    columns = [Column(title, text.format) for title, text in figures.items()]
    over = f", median of {seeds} seeds and half their range" if placed else ""
    return [(Layout(lambda row: f"{row.format}: one cycle, register to register{over}", labels, columns), rows)]

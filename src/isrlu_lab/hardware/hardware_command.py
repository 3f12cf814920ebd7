"""`isrlu hardware`: the table of what the units cost, or the files of one unit."""

from collections.abc import Callable
from pathlib import Path

from isrlu_lab.errors import UserError
from isrlu_lab.hardware import export
from isrlu_lab.hardware.formats import find_format
from isrlu_lab.hardware.synthesis import count_gates, in_scratch, place_and_route
from isrlu_lab.hardware.units import find_unit, max_error, units
from isrlu_lab.hardware.yosys import has
from isrlu_lab.measure.measurement import Measurement
from isrlu_lab.measure.printer import Column, Layout, Tables

ENDINGS = {".v": "Verilog", ".h": "C header"}


def write_files(
    function: str, number: str, form: str | None, out: Path, *, testbench: bool, pipelined: bool
) -> list[Path]:
    """Write the unit to FILE.v, or its table to FILE.h."""
    unit = find_unit(function, find_format(number), form, pipelined=pipelined)
    if out.suffix not in ENDINGS:
        raise UserError(f"--out {out}: give a name that ends in .v (Verilog) or .h (C header)")
    if out.suffix == ".v":
        return export.write_verilog(unit, out, testbench=testbench)
    if testbench:
        raise UserError("--testbench belongs to Verilog: give --out a name that ends in .v")
    return export.write_header(unit, out)


def table(number: str, function: str | None, form: str | None, seeds: int, progress: Callable[[str], None]) -> Tables:
    """Gates of each unit of the format; cells and time on an ECP5 where nextpnr is installed."""
    if function or form:
        find_unit(function or "isrlu", find_format(number), form)  # checks the names
    wanted = [u for u in units(find_format(number)) if function in (u.function, None) and form in (u.form, None)]
    placed = seeds > 0 and has("nextpnr_ecp5")
    rows = []
    for unit in wanted:
        progress(unit.name)
        labels = {"function": unit.function, "form": unit.form, "format": unit.number.name}
        error = {"max_error": max_error(unit), "monotone": unit.monotone_text}
        gates = in_scratch(count_gates, unit)
        ecp5 = in_scratch(place_and_route, unit, range(1, seeds + 1)) if placed else {}
        rows.append(Measurement(labels, error | gates | ecp5))
    columns = [
        Column("max ulp", lambda row: row.max_error),
        Column("monotone", lambda row: row.monotone),
        Column("NAND2", lambda row: f"{row.nand2:.0f}"),
        Column("levels", lambda row: str(row.levels)),
    ]
    if placed:
        columns += [
            Column("ECP5 cells", lambda row: str(row.cells)),
            Column("ECP5 ns", lambda row: f"{row.ns:.1f} ± {row.spread:.1f}"),
        ]
    names = [Column("unit", lambda row: row.function), Column("form", lambda row: row.form)]
    seeds_text = f", median of {seeds} seeds and half their range" if placed else ""
    return [(Layout(lambda row: f"{row.format}: one cycle, register to register{seeds_text}", names, columns), rows)]

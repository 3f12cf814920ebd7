"""Sections 3.2 and 6: the units of `isrlu_lab.hardware`, counted, placed and routed, and the CPU's own instructions."""

from functools import partial
from typing import Any

import isrlu
import isrlu_lab._measure as _measure
from isrlu._missing import install_extra
from isrlu_lab.experiments import figure_style
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Figure, Result, Table, claim
from isrlu_lab.hardware.formats import BF16, FP16, FP32
from isrlu_lab.hardware.stream import Unit
from isrlu_lab.hardware.synthesis import fingerprint, measure_costs, tool_versions
from isrlu_lab.hardware.table_unit import TableUnit
from isrlu_lab.hardware.units import describe, units
from isrlu_lab.hardware.yosys import has
from isrlu_lab.measure import cycle_timer
from isrlu_lab.measure.timer import Sample, ratio

SEEDS = (1, 2, 3)
# Margins of the verdicts, set before these units were measured; a prototype's gate counts and times were known.
SAME_TIME = 1.25  # "about the same execution time": at most this much of the FMA's
SAVES = 0.95  # a saving: at most this much of the rival's gates, in each form and format
FUSED = ("avx2", "avx512", "neon")  # instruction sets with a fused multiply-add
OPERATIONS = ("rsqrt", "fma", "exp")
COLOURS = {"fma": "ink", "multiply": "ink", "rsqrt": "green", "isrlu": "blue", "isru": "blue", "elu": "vermillion"}

Row = dict[str, Any]


def run(context: Context) -> Result:
    """Quick: gates in bfloat16. Full: gates, and place and route over several seeds, in three formats.

    Place and route needs nextpnr, which is in the extra `hardware` alone: without it, a note says so.
    """
    placed = context.full and has("nextpnr_ecp5")
    context.progress("instructions of this CPU")
    samples = _time_instructions(context)
    formats = (BF16, FP16, FP32) if context.full else (BF16,)
    wanted = [unit for number in formats for unit in units(number)]
    rows: list[Row] = []
    for count, unit in enumerate(wanted):
        context.progress(unit.name, count, len(wanted))
        seeds = SEEDS if placed and is_placed(unit) else ()
        key = f"{unit.name} {fingerprint(unit)} seeds {seeds}"
        found = context.remember(key, partial(measure_costs, unit, seeds))
        rows.append(describe(unit) | found)
    left_out = [NOT_PLACED] if context.full and not placed else []
    return Result(
        [_units_table(rows, placed), *([_instructions(samples)] if samples else [])],
        _claims(rows, "ns" if placed else "levels", _latencies(samples)),
        figures=[_figure(context, rows)] if placed else [],
        notes=[*(cycle_timer.remarks(samples) if samples else []), *left_out, NOTE, ALPHA],
        seeds=list(SEEDS) if placed else [],
        environment={"clock_ghz": cycle_timer.clock_ghz(samples), "threads_used": 1, "tools": tool_versions()},
    )


def is_placed(unit: Unit) -> bool:
    """Whether the full preset places and routes the unit: not float16's tables of 9,000 to 15,000 entries."""
    return not (unit.number == FP16 and isinstance(unit, TableUnit))


NOTE = (
    "NAND2 are the two-input gates that abc maps a unit's logic to, an inverter counting half, without registers; "
    "levels are gates in a row. Cells are look-up tables with 4 inputs of an ECP5 (25k, speed grade 6), without its "
    "multipliers and block memories; ns is the longest path from register to register after place and route, the "
    "median over seeds, ± half their range. Every unit is one cycle here. FMA and multiplier are IEEE 754 with "
    "subnormal numbers; rsqrt takes subnormal numbers for 0. The tests run all inputs of all units of 16 bits."
)
NOT_PLACED = (
    f"Place and route was left out, because nextpnr is missing: {install_extra('hardware')}, then repeat this with "
    "`--again`."
)
ALPHA = (
    "The units have alpha = 1. They serve every alpha: isrlu(x; alpha) = isrlu(sqrt(alpha) x; 1) / sqrt(alpha), and "
    "the factors go into the neighbouring weights (`isrlu.torch.fold_alpha`). ELU has no such identity."
)


def _units_table(rows: list[Row], placed: bool) -> Table:
    names = {"format": "format", "function": "unit", "form": "form", "max_error": "max ulp", "monotone": "monotone"}
    columns = {key: Column(title) for key, title in names.items()}
    columns |= {"nand2": Column("NAND2", "here", "{:.0f}", bar=True), "levels": Column("levels", "here")}
    if placed:
        columns |= {"cells": Column("ECP5 cells", "here"), "ns": Column("ECP5 ns", "here", "{:.1f}")}
        columns |= {"spread": Column("ns", "spread", "± {:.1f}")}
    cells: list[list[Cell]] = [[row.get(key) for key in columns] for row in rows]
    return Table("Hardware units: area and time, alpha = 1, one cycle", list(columns.values()), cells)


def _time_instructions(context: Context) -> dict[str, Sample]:
    """Chains of each operation, dependent and independent. Nothing on a CPU without a fused multiply-add.

    Timed first and remembered: this part needs a quiet machine, and the others take long.
    """
    chains = {
        f"{name} {simd} {independent}": partial(_measure.time_chain, simd, name, independent)
        for simd in isrlu.simd_available()
        if simd in FUSED
        for name in OPERATIONS
        for independent in (False, True)
    }

    def measure() -> dict[str, list[float]]:
        samples = cycle_timer.measure(chains, rounds=cycle_timer.ROUNDS[context.full])
        return {name: list(sample.seconds) for name, sample in samples.items()}

    seconds = context.remember(f"instructions {list(chains)}", measure) if chains else {}
    return {name: Sample(tuple(times)) for name, times in seconds.items()}


def _instructions(samples: dict[str, Sample]) -> Table:
    latency = Column("latency, cycles", "here", "{:.1f}"), Column("latency", "spread", "± {:.1f} %")
    side_by_side = Column("cycles per operation, 8 side by side", "here", "{:.2f}")
    rows: list[list[Cell]] = []
    for key in (key for key in samples if key.endswith(" False")):
        name, simd, _ = key.split()
        side = cycle_timer.cycles(samples, f"{name} {simd} True", _measure.independent_chains)
        rows.append([simd, name, cycle_timer.cycles(samples, key, 1), 100 * samples[key].spread, side])
    words = "rsqrt is the CPU's estimate; exp is xsimd's, with a change of sign"
    columns = [Column("instruction set"), Column("operation"), *latency, side_by_side]
    return Table(f"This CPU's operations on a batch of float32 ({words})", columns, rows)


def _latencies(samples: dict[str, Sample]) -> str:
    """A sentence for the claim about the FMA."""
    found = [key for key in samples if key.startswith("rsqrt") and key.endswith(" False")]
    ratios = {key.split()[1]: ratio(samples, key, key.replace("rsqrt", "fma")) for key in found}
    return f" On this CPU the estimate's latency is {_listed(ratios)} of the FMA's." if ratios else ""


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _claims(rows: list[Row], time: str, on_this_cpu: str = "") -> list[Claim]:
    def find(number: str, function: str, form: str) -> Row:
        (row,) = (r for r in rows if (r["format"], r["function"], r["form"]) == (number, function, form))
        return row

    formats = list(dict.fromkeys(row["format"] for row in rows))
    ratios = {n: find(n, "rsqrt", "table")[time] / find(n, "fma", "computed")[time] for n in formats}
    faster = ": it is faster" if max(ratios.values()) < 1 / SAME_TIME else ""
    unit = "time after place and route" if time == "ns" else "gates in a row"

    def areas(ours: str, theirs: str) -> dict[str, float]:
        pairs = ((row["format"], row["form"]) for row in rows if row["function"] == theirs)
        return {f"{n} {form}": find(n, ours, form)["nand2"] / find(n, theirs, form)["nand2"] for n, form in pairs}

    elu, tanh = areas("isrlu", "elu"), areas("isru", "tanh")
    return [
        claim(
            "hardware.fma",
            max(ratios.values()) <= SAME_TIME,
            f"rsqrt by table takes {_listed(ratios)} of the FMA's {unit}{faster}.{on_this_cpu}",
            f"The root takes more than {SAME_TIME} of the FMA's {unit} in one format.",
        ),
        claim(
            "hardware.elu",
            max(elu.values()) <= SAVES,
            f"ISRLU takes {_listed(elu)} of ELU's gates in the same form. The saving is smaller than the 2.6 times of "
            "the paper's software (table 3).",
            f"ISRLU takes more than {SAVES} of ELU's gates in one form: a table costs what its entries cost, whatever "
            "the function. ISRLU leaves the identity later than ELU does, and reaches its limit later too.",
        ),
        claim(
            "hardware.isru",
            max(tanh.values()) <= SAVES,
            f"ISRU takes {_listed(tanh)} of tanh's gates in the same form.",
            "In a table, what counts is how many inputs lie between the identity and the limit. tanh reaches 1 "
            "exponentially, ISRU as 1 - 1/(2 x^2), so that ISRU's tail needs more entries.",
        ),
    ]


def _figure(context: Context, rows: list[Row]) -> Figure:
    shown = [row for row in rows if row["format"] == BF16.name]
    made, axes = figure_style.panel("bfloat16: area against time", "time on an ECP5, ns", "cells (LUT4)")
    labels: dict[tuple[str, float, float], list[str]] = {}  # form and place of a label -> functions
    for row in shown:
        form, x, y = row["form"], row["ns"], row["cells"]
        colour = figure_style.LINES[COLOURS.get(row["function"], "purple")]["color"]
        axes.errorbar(x, y, xerr=row["spread"], fmt="o", color=colour, markersize=5)
        near = (place for place in labels if place[0] == form and abs(place[1] - x) < 2 and abs(place[2] - y) < 60)
        labels.setdefault(next(near, (form, x, y)), []).append(row["function"])
    for (form, x, y), names in labels.items():
        text = f"{', '.join(names)} {form}"
        axes.annotate(text, (x, y), (7, 0), textcoords="offset points", fontsize=8, va="center")
    axes.set(xlim=(0, 1.35 * max(row["ns"] for row in shown)), ylim=(0, None))
    return context.figure(
        "area-time",
        made,
        caption="Cells and time of each unit in bfloat16; the bar is the range over seeds.",
        alt="Scatter plot: tables are fast, the FMA is slowest and largest, piecewise-linear units are between.",
    )

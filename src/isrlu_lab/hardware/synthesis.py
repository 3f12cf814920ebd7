"""What a unit costs: NAND2 gates (abc), and cells and time on an ECP5 (Yosys, nextpnr)."""

import hashlib
import json
import re
import statistics
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Module, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from isrlu_lab.hardware.stream import Unit
from isrlu_lab.hardware.yosys import PACKAGES, has, run_tool, write_rtlil, yosys

CHIP = ("--25k", "--package", "CABGA381", "--speed", "6")


class Registered(wiring.Component):
    """A unit between registers that always move: the time from register to register is the unit's."""

    def __init__(self, unit: Unit):
        self.unit = unit
        widths = unit.operands * unit.number.width, unit.number.width
        super().__init__({"i": In(unsigned(widths[0])), "o": Out(unsigned(widths[1]))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.unit = self.unit
        m.d.comb += [self.unit.i.valid.eq(1), self.unit.o.ready.eq(1), self.o.eq(self.unit.o.payload)]
        m.d.sync += self.unit.i.payload.eq(self.i)
        return m


def count_gates(unit: Unit, folder: Path) -> dict[str, float]:
    """nand2: gates of the unit's logic without its registers, an inverter as half a gate. levels: gates in a row."""
    yosys(
        folder,
        write_rtlil(Registered(unit), unit.name, folder),
        f"synth -flatten -top {unit.name}",
        "abc -g NAND",
        "opt_clean",
        "tee -o stat.json stat -json",
        "tee -o path.txt ltp -noff",
        f"write_verilog -noattr {unit.name}.netlist.v",
    )
    cells = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    found = re.search(r"length=(\d+)", (folder / "path.txt").read_text())
    gates = cells.get("$_NAND_", 0) + cells.get("$_NOT_", 0) / 2
    return {"nand2": gates, "levels": int(found[1]) if found else 0}


def place_and_route(unit: Unit, folder: Path, seeds: Sequence[int]) -> dict[str, float]:
    """cells: 4-input look-up tables. ns: the longest path from register to register, the median over the seeds.

    spread: half the range of the times.
    """
    synthesise = f"synth_ecp5 -nobram -nodsp -top {unit.name} -json ecp5.json"
    yosys(folder, write_rtlil(Registered(unit), unit.name, folder), synthesise)
    times = []
    for seed in seeds:
        files = ("--json", "ecp5.json", "--report", "report.json", "--lpf-allow-unconstrained", "--timing-allow-fail")
        run_tool("nextpnr_ecp5", ["-q", *CHIP, *files, "--freq", "200", "--seed", str(seed)], folder)
        report = json.loads((folder / "report.json").read_text())
        (clock,) = report["fmax"].values()
        times.append(1e3 / clock["achieved"])
    cells = report["utilization"]["TRELLIS_COMB"]["used"]
    return {"cells": cells, "ns": statistics.median(times), "spread": (max(times) - min(times)) / 2}


def measure_costs(unit: Unit, seeds: Sequence[int]) -> dict[str, float]:
    """Gates, and cells and time over the seeds if there are any."""
    with tempfile.TemporaryDirectory() as scratch:
        gates = count_gates(unit, Path(scratch))
        return gates | (place_and_route(unit, Path(scratch), seeds) if seeds else {})


def fingerprint(unit: Unit) -> str:
    """Of the unit's logic and the tools: what was measured belongs to both."""
    text = rtlil.convert(Registered(unit), name=unit.name, emit_src=False)
    return hashlib.sha256(f"{text}{tool_versions()}".encode()).hexdigest()[:12]


def tool_versions() -> dict[str, str]:
    names = ["amaranth", *(package.replace("_", "-") for tool, package in PACKAGES.items() if has(tool))]
    return {name: version(name) for name in names}

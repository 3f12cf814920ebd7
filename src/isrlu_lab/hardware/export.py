"""The files that hardware people take: Verilog, a self-checking testbench with its vectors, a C header for hls4ml."""

import re
import tempfile
from pathlib import Path

import numpy as np

from isrlu_lab.atomic_files import replacing
from isrlu_lab.errors import UserError
from isrlu_lab.hardware.formats import Fixed, all_words
from isrlu_lab.hardware.stream import Unit
from isrlu_lab.hardware.table_unit import FixedTableUnit
from isrlu_lab.hardware.units import max_error
from isrlu_lab.hardware.yosys import write_rtlil, yosys

ABOUT = """\
// {unit.function}, {unit.form}, {unit.number.name}: {accuracy}, one word per cycle, latency {cycles}.
// A word moves in a cycle where its valid and its ready are both 1. The number of a register is its pipeline stage.
"""

TESTBENCH = """\
// Sends every input to {name} and compares the results with {vectors}. The sender and the receiver pause now and then.
//   iverilog -g2005 -o test {verilog} {testbench} && vvp test
`timescale 1ns/1ps
module testbench;
  localparam COUNT = {count};
  reg [{word}:0] vectors [0:2 * COUNT - 1];  // input, result
  reg clk = 0, rst = 0, valid = 0, ready = 0, taken;
  wire i_ready, o_valid;
  wire [{word}:0] result;
  integer sent = 0, received = 0, errors = 0, cycles = 0;

  {name} unit (
    .clk(clk), .rst(rst),
    .i__payload(vectors[2 * sent]), .i__valid(valid), .i__ready(i_ready),
    .o__payload(result), .o__valid(o_valid), .o__ready(ready));

  always #5 clk = ~clk;
  initial $readmemh("{vectors}", vectors);

  always @(posedge clk) begin
    taken = valid && i_ready;
    if (o_valid && ready) begin
      if (result !== vectors[2 * received + 1]) begin
        errors = errors + 1;
        if (errors <= 10)
          $display("input %h: %h, expected %h", vectors[2 * received], result, vectors[2 * received + 1]);
      end
      received = received + 1;
    end
    #1;  // the unit reads its inputs at the edge: they change after it
    if (taken) sent = sent + 1;
    valid = sent < COUNT && (valid && !taken || $random % 4 != 0);  // an offered word stays until it is taken
    ready = $random % 4 != 0;
    cycles = cycles + 1;
    if (received == COUNT || cycles == 16 * COUNT + 1000) begin  // a unit that hangs has no more results
      if (received < COUNT) $display("FAIL: no more than %0d of %0d results came", received, COUNT);
      else if (errors == 0) $display("PASS: %0d results", received);
      else $display("FAIL: %0d of %0d results", errors, received);
      $finish;
    end
  end
endmodule
"""

HEADER = """\
// {function}(x) with alpha = 1 for ap_fixed<{width}, {integer}>: integers in units of 2^-{fraction}.
// Entry k serves x in [LOW + k STEP, LOW + (k + 1) STEP). Largest error: {error} ulp.
// For another alpha: {function}(x; alpha) = {function}(sqrt(alpha) x; 1) / sqrt(alpha).
#pragma once
#include <stdint.h>
#define {macro}_TABLE_SIZE {size}
#define {macro}_TABLE_LOW {low}
#define {macro}_TABLE_STEP {step}
static const int32_t {function}_table[{macro}_TABLE_SIZE] = {{
{rows}
}};
static inline int32_t {function}_fixed(int32_t x) {{ return {positive}{function}_table[(x + {half}) >> {shift}]; }}
"""


def write_verilog(unit: Unit, path: Path, *, testbench: bool) -> list[Path]:
    """Write the unit, and beside it NAME_tb.v and NAME_vectors.hex if asked for. Returns the paths."""
    if testbench and (unit.operands > 1 or unit.number.width > 16):
        raise UserError(f"--testbench writes all inputs of units with one 16-bit input: {unit.name} has more")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        name = f"{unit.name}.v"
        hide = "rename -hide w:*port__data*"  # a second name of each table's data
        tidy = (hide, "proc", "opt_expr", "opt_clean", "opt_dff", "opt_clean -purge", "memory_collect")
        yosys(folder, write_rtlil(unit, unit.name, folder), *tidy, f"write_verilog -noattr {name}")
        text = (folder / name).read_text().partition("\n")[2]  # without Yosys' version
    text = re.sub(r"\\(\w+)\$(\d+) ", r"\1__\2", text)  # Amaranth numbers equal names: plain ones, not escaped ones
    error = max_error(unit)  # "0.50", "12.2 bits" or "exact"
    accuracy = f"largest error {error} ulp" if error[-1].isdigit() else error
    cycles = "1 cycle" if unit.latency == 1 else f"{unit.latency} cycles"
    files = {path: ABOUT.format(unit=unit, accuracy=accuracy, cycles=cycles) + text}
    if testbench:
        words = all_words(unit.number)
        vectors = path.with_name(f"{path.stem}_vectors.hex")
        bench = path.with_name(f"{path.stem}_tb.v")
        pairs = zip(words.tolist(), unit.model(words).tolist(), strict=True)
        digits = (unit.number.width + 3) // 4
        files[vectors] = "".join(f"{x:0{digits}x} {y:0{digits}x}\n" for x, y in pairs)
        names = {"name": unit.name, "verilog": path.name, "testbench": bench.name, "vectors": vectors.name}
        files[bench] = TESTBENCH.format(**names, count=len(words), word=unit.number.width - 1)
    return _write(files)


def write_header(unit: Unit, path: Path) -> list[Path]:
    """Write the table of a fixed-point unit as C, with range and step."""
    if not isinstance(unit, FixedTableUnit) or not isinstance(unit.number, Fixed):
        raise UserError(f"a C header holds a fixed-point table, not {unit.name}: give --format fixed16.10 --form table")
    number = unit.number
    half, scale = 1 << number.width - 1, 1 << number.fraction
    values = ((unit.entries ^ half) - half).tolist()
    text = HEADER.format(
        function=unit.function,
        macro=unit.function.upper(),
        width=number.width,
        fraction=number.fraction,
        integer=number.width - number.fraction,
        error=max_error(unit),
        size=unit.size,
        low=-half / scale,
        step=(1 << unit.shift) / scale,
        rows=",\n".join(", ".join(map(str, row)) for row in np.array_split(values, max(1, unit.size // 16))),
        positive="" if unit.curve.odd else "x >= 0 ? x : ",
        half=half,
        shift=unit.shift,
    )
    return _write({path: text})


def _write(files: dict[Path, str]) -> list[Path]:
    for path, text in files.items():
        try:
            with replacing(path) as file:
                file.write(text.encode())
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}: give another place with --out") from None
    return list(files)

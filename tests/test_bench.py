"""The measuring commands run, check before they time, and say what they were asked."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import isrlu
from isrlu.testing import bounds, reference, ulp_error
from isrlu_lab import _measure
from isrlu_lab.cli import app, main
from isrlu_lab.measure import cycle_timer, exhaustive_accuracy, kernel_bench, numpy_bench, timer

command = CliRunner()


def test_contenders_take_turns():
    turns = []
    samples = timer.measure_loops(
        {name: lambda n, name=name: turns.append(name) or 1e-3 * n for name in "ab"}, rounds=3
    )
    assert turns[-6:] == list("ababab")
    assert samples["a"].median == pytest.approx(1e-3) and len(samples["b"].seconds) == 3


@pytest.mark.parametrize("warm_up", [False, True])
def test_a_warm_up_call_is_not_timed(monkeypatch, warm_up):
    events = []
    monkeypatch.setattr(timer.time, "perf_counter", lambda: events.append("clock") or len(events) * 1e-3)
    timer.measure({"a": lambda: events.append("call")}, rounds=1, slice_seconds=1e-3, warm_up=warm_up)
    first = events.index("clock")
    assert events[:first] == ["call"] * warm_up
    assert events.count("clock") % 2 == 0 and events[-1] == "clock"


def test_a_ratio_is_taken_round_by_round():
    samples = {"slow": timer.Sample((2.0, 8.0, 6.0)), "fast": timer.Sample((1.0, 4.0, 2.0))}
    assert timer.ratio(samples, "slow", "fast") == 2.0


def test_a_wrong_result_is_not_timed():
    x = np.array([-1.0, 1.0])
    right = np.array([-(0.5**0.5), 1.0])
    kernel_bench._check(kernel_bench.Contender("isrlu"), False, 1.0, x, x, right)
    with pytest.raises(AssertionError, match="isrlu full"):
        kernel_bench._check(kernel_bench.Contender("isrlu"), False, 1.0, x, x, right * 1.001)


def test_bench_kernels_as_json(monkeypatch):
    """With a timer that says 64 ns for one contender, 128 ns for the next and so on, at a clock of 2 GHz."""

    def measured(jobs, rounds):
        seconds = {name: n * 64e-9 for n, name in enumerate(jobs)} | {"clock": jobs["clock"](1)}
        return {name: timer.Sample((seconds[name],) * rounds) for name in jobs}

    monkeypatch.setattr(cycle_timer, "measure_loops", measured)
    monkeypatch.setattr(cycle_timer._measure, "clock", lambda: 2e9)
    done = command.invoke(app, ["bench", "kernels", "--simd", "scalar", "--size", "64", "--rounds", "2", "--json", "-"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    rows = {(row["direction"], row["contender"]) for row in figures["rows"]}
    assert rows == {("forward", str(c)) for c in kernel_bench.FORWARD} | {
        ("backward", str(c)) for c in kernel_bench.BACKWARD
    }
    assert figures["environment"]["cpu"]
    backward = [row for row in figures["rows"] if row["direction"] == "backward"]
    for n, row in enumerate(backward, start=1):  # ReLU is the first
        assert (row["ns"], row["cycles"], row["of_relu"]) == (pytest.approx(n), pytest.approx(2 * n), pytest.approx(n))


def test_cycles_are_0_where_the_clock_is_not_known(monkeypatch):
    monkeypatch.setattr(cycle_timer._measure, "clock", lambda: 0.0)
    samples = cycle_timer.measure({"work": lambda loops: 1e-3 * loops}, rounds=2)
    assert set(samples) == {"work"}
    assert cycle_timer.cycles(samples, "work", 1) == cycle_timer.clock_ghz(samples) == 0


def test_bench_numpy():
    done = command.invoke(app, ["bench", "numpy", "--size", "16", "--rounds", "2"])
    assert done.exit_code == 0 and all(name in done.stdout for name in numpy_bench.CONTENDERS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("bench kernels --simd mmx", "instruction set 'mmx' is not available here: this CPU has"),
        ("bench kernels --size 64 --rounds 2 --markdown /dev", "cannot write /dev: Is a directory: give another place"),
        ("bench numpy --size 64 --rounds 2 --json /dev", "cannot write /dev: Is a directory: give another place"),
        ("bench numpy --rounds 2 --size 99999999999999", "this machine has not enough memory for it: ask for less"),
        pytest.param(
            "bench torch --rounds 2 --size 99999999999999",
            "this machine has not enough memory for it: ask for less",
            marks=pytest.mark.slow,  # it compiles the formula first
        ),
    ],
)
def test_a_mistake_is_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["isrlu", *arguments.split()])
    with pytest.raises(SystemExit) as exit_code:
        main()
    assert exit_code.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"isrlu: {message}")


@pytest.mark.parametrize("arguments", ("bench kernels --size 0", "train --threads 100000"))
def test_a_number_out_of_range(arguments):
    done = command.invoke(app, arguments.split())
    assert done.exit_code == 2 and "Invalid value for" in done.stderr


def test_sweep_finds_the_worst_input():
    (finding,) = _measure.exhaustive_error([("scalar", "kinney")], "isrlu", False, 1.0, 0xBF000000, 1 << 16)
    ulps, worst, correct = finding
    y = np.empty(1, np.float32)
    x = np.float32([worst])
    _measure.TimedKernel("scalar", "isrlu", "kinney").run(x.ctypes.data, 0, y.ctypes.data, 1)
    assert ulp_error(y, reference("isrlu", x), "float32")[0] == pytest.approx(ulps, rel=1e-9)
    assert 0 <= correct < 1 << 16


@pytest.mark.slow
@pytest.mark.parametrize("simd", isrlu.simd_available())
def test_full_keeps_the_published_bound_on_a_sample_of_every_float32(simd):
    found = exhaustive_accuracy.float32([simd], ["full"], quick=True)
    allowed = bounds("numpy", "isrlu", "float32")
    assert max(f.max_ulps for f in found if f.quantity == "f") <= allowed.f
    assert max(f.max_ulps for f in found if f.quantity == "f'") <= allowed.dfdx
    assert {f.alpha for f in found} == set(exhaustive_accuracy.ALPHAS)


def test_a_result_that_is_no_number_is_infinitely_far_off():
    found = _measure.exhaustive_error([("scalar", "full")], "isrlu", False, 1.0, 0x7FC0_0000, 100)  # of NaN
    assert found[0][0] == np.inf and np.isnan(found[0][1])


def test_float64_and_16_bit_types():
    simd = isrlu.simd()
    found = (
        exhaustive_accuracy.float64(simd, 2000)
        + exhaustive_accuracy.small(simd, "float16")
        + exhaustive_accuracy.small(simd, "bfloat16")
    )
    assert {f.dtype for f in found} == {"float64", "float16", "bfloat16"}
    for f in found:
        allowed = bounds("numpy", "isrlu", f.dtype)
        assert f.max_ulps <= (allowed.f if f.quantity == "f" else allowed.dfdx), f

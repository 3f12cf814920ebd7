"""Every bench and `isrlu accuracy` goes through the one printer, with the columns and keys that the docs describe."""

import importlib
import importlib.util
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from isrlu_lab.cli import app
from isrlu_lab.measure import bench_command, printer
from isrlu_lab.measure.measurement import Measurement, ns_figures, seconds_figures
from isrlu_lab.measure.printer import Column, Layout
from isrlu_lab.measure.timer import Sample

CALLS = ["", "us/call", "ns/element", "of ReLU", "spread"]
ARRAYS = ["", "us", "of ReLU", "of ELU", "spread"]
ARRAY_KEYS = "framework direction size contender seconds spread of_relu of_elu"
# module and name of a layout -> (columns on the terminal, columns in Markdown, keys of a JSON row)
DOCUMENTED = {
    ("kernel_bench", "LAYOUT"): (
        ["", "ns/element", "cycles/element", "of ReLU", "spread"],
        ["", "", "7"],
        "simd size direction contender ns cycles spread of_relu",
    ),
    ("numpy_bench", "LAYOUT"): (
        ["", "us/call", "ns/element", "of np.maximum", "spread"],
        None,
        "size contender seconds spread of_maximum",
    ),
    ("torch_bench", "LAYOUT"): (CALLS, None, "size threads direction contender device seconds spread of_relu"),
    ("training_step_bench", "LAYOUT"): (
        ["", "", "", "ms", "of ReLU", "spread", "peak MB"],
        None,
        "what activation inplace seconds spread of_relu peak_bytes",
    ),
    ("recurrent_bench", "GATES_LAYOUT"): (
        ["", "", "", "ns/unit", "of exact's speed", "spread"],
        None,
        "simd layer gates ns spread speedup",
    ),
    ("recurrent_bench", "LAYERS_LAYOUT"): (
        ["", "", "", "batch", "hidden", "µs/step", "of torch.nn's speed", "spread"],
        None,
        "layer what batch hidden threads contender seconds spread speedup",
    ),
    ("realtime_bench", "LAYOUT"): (
        ["", "", "steps", "hidden", "µs/call", "of torch.nn's speed", "spread"],
        None,
        "layer steps hidden threads contender seconds spread speedup",
    ),
    ("framework_bench", "LAYOUT"): (ARRAYS, None, ARRAY_KEYS),
    ("grid_bench", "LAYOUT"): (
        ["", "images/s in each round", "median", "grid's throughput"],
        None,
        "architecture contender images_per_second grid_speedup rates",
    ),
    ("exhaustive_accuracy", "LAYOUT"): (
        ["", "", "", "max ulp", "at x =", "correctly rounded", "inputs"],
        ["dtype", "instruction set", "method", "alpha", "f, max ulp", "at x =", "correctly rounded"],
        "dtype simd method quantity alpha max_ulps worst_input correct inputs",
    ),
}
EXAMPLE = {"direction": "forward", "quantity": "f", "rates": [1.0], "inplace": True}
SAMPLES = {"relu": Sample((1.0, 2.0, 4.0)), "isrlu": Sample((2.0, 6.0, 8.0))}


# module -> (options of its smallest run, layouts of the tables that it returns)
SMALLEST = {
    "kernel_bench": ({"simd": ["scalar"], "size": [64], "rounds": 2}, ["kernel_bench.LAYOUT"]),
    "numpy_bench": ({"size": [16], "rounds": 2}, ["numpy_bench.LAYOUT"]),
    "torch_bench": (
        {"size": [16], "threads": [1], "rounds": 2, "functions": True, "steps": True, "device": "cpu"},
        ["torch_bench.LAYOUT", "training_step_bench.LAYOUT"],
    ),
    "recurrent_bench": (
        {"batch": [1], "hidden": [8], "layer_threads": 1, "simd": ["scalar"], "rounds": 2},
        ["recurrent_bench.GATES_LAYOUT", "recurrent_bench.LAYERS_LAYOUT", "realtime_bench.LAYOUT"],
    ),
    "jax_bench": ({"size": [16], "rounds": 2}, ["framework_bench.LAYOUT"]),
    "onnx_bench": ({"size": [16], "rounds": 2}, ["framework_bench.LAYOUT"]),
    "grid_bench": (
        {"architecture": 1, "training_steps": 10, "training_rounds": 1, "data": None},
        ["grid_bench.LAYOUT"],
    ),
}


def _layout(module: str, name: str) -> Layout:
    try:
        return getattr(importlib.import_module(f"isrlu_lab.measure.{module}"), name)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs {error.name}")


@pytest.fixture
def instant_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed, nothing trained: every call takes the times of `SAMPLES["relu"]`."""

    def measure(calls, **_):
        return dict.fromkeys(calls, SAMPLES["relu"])

    for place in ("cycle_timer.measure_loops", "numpy_bench.measure", "framework_bench.measure"):
        monkeypatch.setattr(f"isrlu_lab.measure.{place}", measure)
    if importlib.util.find_spec("torch"):
        for place in ("torch_bench.measure", "training_step_bench.measure", "recurrent_bench.measure_loops"):
            monkeypatch.setattr(f"isrlu_lab.measure.{place}", measure)
        for place in ("recurrent_bench.measure", "realtime_bench.measure"):
            monkeypatch.setattr(f"isrlu_lab.measure.{place}", measure)
        from isrlu_lab.measure import torch_bench

        monkeypatch.setitem(torch_bench.CONTENDERS, "formula compiled", lambda: torch_bench.paper)  # compiling is slow
        monkeypatch.setattr("isrlu_lab.measure.training_step_bench.training_step", lambda *_: None)
        monkeypatch.setattr("isrlu_lab.measure.training_step_bench.peak_memory", lambda _: 1_000_000)
        monkeypatch.setattr("isrlu_lab.measure.grid_bench.run", lambda *_, **__: {"plain": [1.0], "grid": [2.0]})


@pytest.mark.usefixtures("instant_timer")
@pytest.mark.parametrize("module", SMALLEST)
def test_documented_keys(module: str) -> None:
    options, places = SMALLEST[module]
    layouts = [_layout(*place.split(".")) for place in places]
    tables = importlib.import_module(f"isrlu_lab.measure.{module}").bench(**options, progress=lambda _: None)
    assert [layout for layout, _ in tables] == layouts
    for place, (layout, measurements) in zip(places, tables, strict=True):
        keys = set(DOCUMENTED[tuple(place.split("."))][2].split())
        assert measurements and all(set(each.to_dict()) == keys for each in measurements)
        assert all(grid.rows for grid in printer.grids(layout, measurements))


def _measurement(keys: str) -> Measurement:
    """A measurement of those labels and figures, all 7 where the kind does not matter."""
    words = ("simd", "contender", "what", "activation", "layer", "gates", "framework", "dtype", "method")
    return Measurement({key: EXAMPLE.get(key, key if key in words else 7) for key in keys.split()}, {})


@pytest.mark.parametrize(("place", "documented"), DOCUMENTED.items(), ids=map(".".join, DOCUMENTED))
def test_documented_columns(place: tuple[str, str], documented: tuple[list[str], list[str] | None, str]) -> None:
    layout = _layout(*place)
    terminal, markdown, keys = documented
    measurement = _measurement(keys)  # a layout that needs another key fails
    (grid,) = printer.grids(layout, [measurement])
    assert grid.header == terminal and len(grid.rows) == 1
    (grid,) = printer.grids(layout.markdown or layout, [measurement])
    assert grid.header == (markdown or terminal)


@pytest.mark.parametrize("bench", bench_command.BENCHES, ids=lambda bench: bench.name)
def test_every_bench_prints_through_the_one_printer(bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a bench that measures nothing: options come from the list, tables in all forms from the printer."""
    layout = Layout(lambda m: f"table of {m.size}", [Column("", lambda m: m.name)], [Column("ns", lambda m: f"{m.ns}")])
    given = {}

    class Module:
        @staticmethod
        def bench(*, progress, **options):
            progress("now")
            given.update(options)
            return [(layout, [Measurement({"size": 3, "name": "relu"}, {"ns": 1.5})])]

    modules = {f"isrlu_lab.measure.{bench.module}": Module}
    monkeypatch.setattr(bench_command, "importlib", SimpleNamespace(import_module=modules.get))
    for variable in ("KERAS_BACKEND", "TF_CPP_MIN_LOG_LEVEL"):  # the command sets them; restored after the test
        monkeypatch.setenv(variable, "")
    files = ["--markdown", str(tmp_path / "table.md"), "--json", str(tmp_path / "rows.json")]
    done = CliRunner().invoke(app, ["bench", bench.name, *files])
    assert (done.exit_code, done.stdout) == (0, "")
    assert list(given) == bench.options.split()
    assert (tmp_path / "table.md").read_text().startswith("### table of 3\n\n| | ns |\n|---|---|\n| relu | 1.5 |\n\n")
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == [{"size": 3, "name": "relu", "ns": 1.5}]
    done = CliRunner().invoke(app, ["bench", bench.name])
    assert done.exit_code == 0 and "table of 3" in done.stdout and re.search(r"relu\s*│\s*1.5", done.stdout)


def test_accuracy_prints_through_the_one_printer(monkeypatch: pytest.MonkeyPatch) -> None:
    from isrlu_lab.measure import exhaustive_accuracy

    labels = {"dtype": "float32", "simd": "sse2", "method": "full", "alpha": 3.0}
    errors = {"max_ulps": 1.25, "worst_input": -0.5, "correct": 0.989, "inputs": 1000}
    found = [Measurement({**labels, "quantity": quantity}, errors) for quantity in ("f", "f'")]
    monkeypatch.setattr(exhaustive_accuracy, "run", lambda simds, **_: found)
    done = CliRunner().invoke(app, ["accuracy", "--markdown", "-"])
    lines = done.stdout.splitlines()
    error_columns = "max ulp | at x = | correctly rounded |"
    assert lines[0] == f"| dtype | instruction set | method | alpha | f, {error_columns} f', {error_columns}"
    assert lines[2] == "| float32 | sse2 | full | 3 | 1.25 | -0.5 | 98.9% | 1.25 | -0.5 | 98.9% |"
    done = CliRunner().invoke(app, ["accuracy", "--json", "-"])
    assert json.loads(done.stdout)["rows"] == [{**each.labels, **errors} for each in found]


@pytest.mark.parametrize("form", [[], ["--markdown", "-"]], ids=["terminal", "markdown"])
def test_the_machine_stands_beside_the_numbers(form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["isrlu", "bench", "numpy"])
    machine = {"cpu": "A CPU", "simd": "neon", "simd_available": ["scalar", "neon"], "threads": 2, "os": "An OS"}
    machine |= {"versions": {"python": "3.1", "numpy": "9.9"}, "command": "isrlu bench numpy"}
    monkeypatch.setattr(printer.environment, "capture", lambda: machine)
    done = CliRunner().invoke(app, ["bench", "numpy", "--size", "16", "--rounds", "2", *form])
    last = "A CPU, neon (this CPU has scalar, neon), 2 CPUs, An OS; python 3.1, numpy 9.9; `isrlu bench numpy`"
    assert done.stdout.splitlines()[-1] == last


def test_values_side_by_side() -> None:
    layout = Layout(
        title=lambda m: "",
        labels=[Column("", lambda m: m.name)],
        figures=[Column("{:,} elements", lambda m: f"{m.ns} ns")],
        across=lambda m: m.size,
    )
    found = [Measurement({"name": "relu", "size": size}, {"ns": size / 1000}) for size in (4096, 64)]
    found.append(Measurement({"name": "copy", "size": 64}, {"ns": 0.5}))
    assert printer.markdown_text([(layout, found)]).splitlines() == [
        "| | 64 elements | 4,096 elements |",
        "|---|---|---|",
        "| relu | 0.064 ns | 4.096 ns |",
        "| copy | 0.5 ns | |",
    ]


def test_figures_of_a_contender() -> None:
    """Medians of the rounds; ratios round by round: 2, 3 and 2."""
    figures = seconds_figures(SAMPLES, "isrlu", calls=2, relative_to={"of_relu": "relu"}, speedup_over="relu")
    assert figures == {"seconds": 3.0, "spread": pytest.approx(0.5), "of_relu": 2.0, "speedup": 0.5}
    figures = ns_figures(SAMPLES, "isrlu", elements=3, relative_to={"of_relu": "relu"})
    assert figures == {"ns": pytest.approx(2e9), "spread": pytest.approx(0.5), "of_relu": 2.0}


def test_a_measurement_has_its_labels_and_figures_only() -> None:
    measurement = Measurement({"size": 3}, {"ns": 1.5})
    assert (measurement.size, measurement.ns, measurement.to_dict()) == (3, 1.5, {"size": 3, "ns": 1.5})
    with pytest.raises(AttributeError, match="a measurement without 'seconds': it has size, ns"):
        _ = measurement.seconds

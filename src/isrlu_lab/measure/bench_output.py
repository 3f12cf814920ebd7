"""What the measuring commands share: progress, tables on the terminal, figures as JSON."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

import isrlu
from isrlu_lab import environment
from isrlu_lab.errors import UserError

if TYPE_CHECKING:
    from isrlu_lab.measure.exhaustive_accuracy import Finding
    from isrlu_lab.measure.framework_bench import Row as ArrayRow
    from isrlu_lab.measure.kernel_bench import Row
    from isrlu_lab.measure.numpy_bench import Row as NumpyRow
    from isrlu_lab.measure.recurrent_bench import GatesRow, LayerRow
    from isrlu_lab.measure.torch_bench import Row as TorchRow
    from isrlu_lab.measure.training_step_bench import Step

KERAS_BACKENDS = ("tensorflow", "jax", "torch")

_errors = Console(stderr=True)  # progress goes there, so that a table or JSON can be redirected


def instruction_sets(names: list[str] | None) -> list[str]:
    """The named instruction sets, or all that this CPU has."""
    here = isrlu.simd_available()
    if unknown := [name for name in names or [] if name not in here]:
        raise UserError(f"instruction set {unknown[0]!r} is not available here: this CPU has {', '.join(here)}")
    return names or list(here)


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """A bar, and a function to tell it the finished share."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_errors) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A line that says what is measured now."""
    with _errors.status("") as line:
        yield line.update


def write(path: Path, text: str) -> None:
    """Write to a file, or to standard output for "-"."""
    if str(path) == "-":
        print(text, end="")
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def write_json(path: Path, rows: Any) -> None:
    """The figures, dataclasses or JSON-ready, with the environment that they were measured in."""
    figures = {"environment": environment.capture(), "rows": rows}
    write(path, json.dumps(figures, indent=1, default=asdict) + "\n")


def kernels(rows: "list[Row]") -> None:
    """One table for each instruction set, size and direction; times relative to ReLU's beside."""
    console = Console()
    for (simd, size, direction), group in groupby(rows, key=lambda row: (row.simd, row.size, row.direction)):
        members = list(group)
        relu = next(row.ns for row in members if row.contender == "relu")
        table = Table(title=f"{simd}, {size:,} elements, {direction}", title_justify="left")
        for column in ("", "ns/element", "cycles/element", "of ReLU", "spread"):
            table.add_column(column, justify="right" if column else "left")
        for row in members:
            cells = (f"{row.ns:.3f}", f"{row.cycles:.2f}", f"{row.ns / relu:.2f}x", f"{row.spread:.1%}")
            table.add_row(row.contender, *cells)
        console.print(table)


def numpy(rows: "list[NumpyRow]") -> None:
    """One table for each size."""
    console = Console()
    for size, group in groupby(rows, key=lambda row: row.size):
        table = Table(title=f"{size:,} elements", title_justify="left")
        for column in ("", "us/call", "ns/element", "of np.maximum", "spread"):
            table.add_column(column, justify="right" if column else "left")
        for row in group:
            times = (f"{row.seconds * 1e6:.4g}", f"{row.seconds / size * 1e9:.3f}")
            table.add_row(row.contender, *times, f"{row.of_maximum:.2f}x", f"{row.spread:.1%}")
        console.print(table)


def torch(rows: "list[TorchRow]") -> None:
    """One table for each number of threads, size and direction."""
    console = Console()
    for (threads, size, direction), group in groupby(rows, key=lambda row: (row.threads, row.size, row.direction)):
        table = Table(title=f"threads: {threads}, {size:,} elements, {direction}", title_justify="left")
        for column in ("", "us/call", "ns/element", "of ReLU", "spread"):
            table.add_column(column, justify="right" if column else "left")
        for row in group:
            times = (f"{row.seconds * 1e6:.4g}", f"{row.ns_per_element:.3f}")
            table.add_row(row.contender, *times, f"{row.of_relu:.2f}x", f"{row.spread:.1%}")
        console.print(table)


def steps(steps: "list[Step]") -> None:
    """One table for all steps."""
    table = Table(title="within a network", title_justify="left")
    for column in ("", "", "", "ms", "of ReLU", "spread", "peak MB"):
        table.add_column(column, justify="right" if column else "left")
    for step in steps:
        peak = "" if step.peak_bytes is None else f"{step.peak_bytes / 1e6:.2f}"
        figures = (f"{step.seconds * 1e3:.2f}", f"{step.of_relu:.3f}x", f"{step.spread:.1%}", peak)
        table.add_row(step.what, step.activation, "in place" if step.inplace else "", *figures)
    Console().print(table)


def arrays(rows: "list[ArrayRow]", json_path: Path | None) -> None:
    """One table for each size and direction, or JSON where a path is given."""
    if json_path:
        write_json(json_path, [asdict(row) for row in rows])
        return
    console = Console()
    for (framework, size, direction), group in groupby(rows, key=lambda row: (row.framework, row.size, row.direction)):
        what = f"{size:,} elements" if direction in ("forward", "gradient") else f"batch of {size}"
        table = Table(title=f"{framework}, {what}, {direction}", title_justify="left")
        for column in ("", "us", "of ReLU", "of ELU", "spread"):
            table.add_column(column, justify="right" if column else "left")
        for row in group:
            quotients = (f"{row.of_relu:.2f}x", f"{row.of_elu:.2f}x")
            table.add_row(row.contender, f"{row.seconds * 1e6:,.1f}", *quotients, f"{row.spread:.1%}")
        console.print(table)


def choose_keras_backend(name: str) -> None:
    """Make Keras, which must not have been imported yet, run on this backend, and TensorFlow keep its log to itself."""
    if name not in KERAS_BACKENDS:
        raise UserError(f"unknown Keras backend {name!r}: known are {', '.join(KERAS_BACKENDS)}")
    os.environ["KERAS_BACKEND"] = name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def recurrent(gates: "list[GatesRow]", layers: "list[LayerRow]") -> None:
    """The gates by instruction set, then the layers beside torch.nn's."""
    console = Console()
    table = Table(title="gates alone, forward, one thread", title_justify="left")
    for column in ("", "", "", "ns/unit", "of exact's speed", "spread"):
        table.add_column(column, justify="right" if column else "left")
    for row in gates:
        table.add_row(row.simd, row.layer, row.gates, f"{row.ns:.3f}", f"{row.speedup:.2f}x", f"{row.spread:.1%}")
    console.print(table)
    table = Table(title="layers", title_justify="left")
    for column in ("", "", "", "batch", "hidden", "µs/step", "of torch.nn's speed", "spread"):
        table.add_column(column, justify="right" if column else "left")
    for each in layers:
        figures = (f"{each.seconds * 1e6:.2f}", f"{each.speedup:.2f}x", f"{each.spread:.1%}")
        table.add_row(each.layer, each.what, each.contender, str(each.batch), str(each.hidden), *figures)
    console.print(table)


def accuracy(findings: "list[Finding]") -> None:
    """One table for each type and alpha."""
    console = Console()
    for (dtype, alpha), group in groupby(findings, key=lambda f: (f.dtype, f.alpha)):
        table = Table(title=f"{dtype}, alpha {alpha:g}", title_justify="left")
        for column in ("", "", "", "max ulp", "at x =", "correctly rounded", "inputs"):
            table.add_column(column, justify="right" if column else "left")
        for f in group:
            figures = (f"{f.max_ulps:.4g}", f"{f.worst_input:.7g}", f"{f.correct:.1%}", f"{f.inputs:,}")
            table.add_row(f.simd, f.method, f.quantity, *figures)
        console.print(table)

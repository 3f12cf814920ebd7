"""Run experiments one after the other: what is done stays done, what fails is told, and the report comes last."""

import dataclasses
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from isrlu._missing import install_hint
from isrlu_lab import environment
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import registry, terminal
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Experiment
from isrlu_lab.experiments.result_store import Damaged, Record, Store, StoreError

FAILED, INTERRUPTED = 1, 130


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    full: bool,
    again: bool,
    console: Console,
    errors: Console,
    options: Mapping[str, Any] | None = None,
) -> int:
    """Run the experiments of these names (all, if none) and write the report; returns the exit code."""
    entries = registry.select(names)
    preset = "full" if full else "quick"

    def warn(message: str) -> None:
        errors.print(f"isrlu: {message}", style="red", markup=False, soft_wrap=True)

    store = Store(out, warn)
    failed: list[str] = []
    finished = 0
    with store.exclusive():
        for entry in entries:
            try:
                if not _run(entry, store, preset, again, console, options or {}):
                    failed.append(entry.name)
                finished += 1
            except KeyboardInterrupt:
                warn(f"stopped in {entry.name}; {finished} of {len(entries)} are finished: the same command goes on")
                return INTERRUPTED
            except StoreError:
                raise
            except Exception as error:  # one experiment that fails must not take the others down
                reason = _reason(error)
                store.save_failure(entry.name, preset, reason, traceback.format_exc())
                warn(f"{entry.name} failed: {reason}")
                failed.append(entry.name)
        _report(out, console)
    if failed:
        warn(f"{len(failed)} of {len(entries)} failed: {', '.join(failed)}")
    return FAILED if failed else 0


def _run(
    entry: Experiment, store: Store, preset: str, again: bool, console: Console, options: Mapping[str, Any]
) -> bool:
    """Whether all of it ran, now or before: runs that crashed leave an experiment without them."""
    folder = store.folder(entry.name, preset)
    if again:
        folder.forget_parts()
    try:
        record = None if again else store.load(entry.name, preset)
    except Damaged as error:
        store.warn(f"{error}; {entry.name} runs again")
        record = None
    context = Context(folder, preset == "full", options=options)
    if record is not None and registry.is_current(entry, record.environment, context):
        date = str(record.environment.get("date", "before"))[:10]
        console.print(f"[green]done[/] {entry.name} ({preset}, {date}; --again repeats it)", highlight=False)
        return True
    start = time.perf_counter()
    with _Watch(entry, preset, console) as watch:
        found = registry.load(entry)(dataclasses.replace(context, progress=watch.progress))
    seconds = time.perf_counter() - start
    if not (found.tables or found.figures):
        raise RuntimeError("it returned neither a table nor a figure")
    captured = {**environment.capture(), "seeds": found.seeds, **found.environment}
    store.save(Record(entry.name, preset, round(seconds, 2), captured, found))
    terminal.result(console, entry, found)
    return not found.environment.get("runs", {}).get("crashed")


def _report(out: Path, console: Console) -> None:
    from isrlu_lab.report import build

    path = build.write(out, warn=lambda _: None)  # damaged files were named when they were met
    console.print(f"report: [bold]{escape(str(path))}[/]", soft_wrap=True, highlight=False)


def _reason(error: Exception) -> str:
    """One line for a person: what went wrong, and what to do where that is known."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (message := install_hint(error)):
        return message
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]} (traceback in failure.json)"


class _Watch:
    """One line of progress for the running experiment; refreshed rarely, so that it does not disturb a measurement."""

    def __init__(self, entry: Experiment, preset: str, console: Console):
        self._expected = entry.full if preset == "full" else entry.quick
        self._name = entry.name
        columns = (
            TextColumn("[bold]{task.fields[name]}[/]"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("of about {task.fields[expected]}  {task.description}"),
        )
        self._bar = Progress(*columns, console=console, refresh_per_second=1, transient=True)

    def __enter__(self) -> "_Watch":
        self._bar.start()
        self._task = self._bar.add_task("", total=None, name=self._name, expected=self._expected)
        if not self._bar.console.is_terminal:
            self._bar.console.print(f"{self._name}: runs, about {self._expected}", highlight=False)
        return self

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self._bar.update(self._task, description=escape(text), completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

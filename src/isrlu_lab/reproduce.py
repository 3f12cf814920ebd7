"""Run experiments one after the other. A finished one is not repeated, a failed one does not stop the others."""

import contextlib
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
from isrlu_lab.experiments.context import Context, NothingStored
from isrlu_lab.experiments.experiment import Experiment, Result
from isrlu_lab.experiments.result_store import Damaged, Record, Store
from isrlu_lab.output_folder import OutputFolder, StoreError

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
    options = options or {}
    preset = "full" if full else "quick"

    def warn(message: str) -> None:
        errors.print(f"isrlu: {message}", style="red", markup=False, soft_wrap=True)

    stored = bool(options.get("stored"))
    if stored and not out.is_dir():
        raise UserError(_nothing_stored(entries, preset, out))
    store = Store(OutputFolder(out), warn)
    failed: list[str] = []
    missing: list[Experiment] = []
    finished = 0
    with store.output.lock():
        store.output.check_space()
        for entry in entries:
            try:
                if stored:
                    missing += [] if _show_stored(entry, store, preset, console, options) else [entry]
                elif not _run(entry, store, preset, again, console, options):
                    failed.append(entry.name)
                finished += 1
            except KeyboardInterrupt:
                warn(f"stopped in {entry.name}; {finished} of {len(entries)} are finished: the same command resumes")
                return INTERRUPTED
            except StoreError:
                raise
            except Exception as error:  # one experiment that fails must not stop the others
                reason = _reason(error)
                store.save_failure(entry.name, preset, reason, traceback.format_exc())
                warn(f"{entry.name} failed: {reason}")
                failed.append(entry.name)
        if len(missing) == len(entries):
            raise UserError(_nothing_stored(missing, preset, out))
        _report(out, console)
    if missing:
        warn(_nothing_stored(missing, preset, out))
    if failed:
        warn(f"{len(failed)} of {len(entries)} failed: {', '.join(failed)}")
    return FAILED if failed else 0


def _run(
    entry: Experiment, store: Store, preset: str, again: bool, console: Console, options: Mapping[str, Any]
) -> bool:
    """Run the experiment unless its result is stored; returns False if training runs crashed."""
    folder = store.folder(entry.name, preset)
    if again:
        folder.forget_parts()
    record = None if again else _load(entry, store, preset, "runs again")
    context = Context(folder, preset == "full", options=options)
    if record is not None and registry.is_current(entry, record.environment, context):
        date = str(record.environment.get("date", "before"))[:10]
        console.print(f"[green]done[/] {entry.name} ({preset}, {date}; --again repeats it)", highlight=False)
        return True
    found = _execute(entry, store, context, console)
    folder.forget_parts()
    return not found.environment.get("runs", {}).get("crashed")


def _show_stored(entry: Experiment, store: Store, preset: str, console: Console, options: Mapping[str, Any]) -> bool:
    """Rebuild the result from stored training runs, or show the stored one; returns False if there is neither."""
    record = _load(entry, store, preset, "is left out")
    previous = record.result if record else None
    if entry.trains:
        context = Context(store.folder(entry.name, preset), preset == "full", options=options, previous=previous)
        with contextlib.suppress(NothingStored):
            _execute(entry, store, context, console)
            return True
    if previous:
        terminal.result(console, entry, previous)
    return previous is not None


def _load(entry: Experiment, store: Store, preset: str, consequence: str) -> Record | None:
    try:
        return store.load(entry.name, preset)
    except Damaged as error:
        store.warn(f"{error}; {entry.name} {consequence}")
        return None


def _execute(entry: Experiment, store: Store, context: Context, console: Console) -> Result:
    """Call the experiment, store its result and print it."""
    preset = "full" if context.full else "quick"
    start = time.perf_counter()
    expected = "10 s" if context.stored else entry.full if context.full else entry.quick
    with _Watch(entry.name, expected, console) as watch:
        found = registry.load(entry)(dataclasses.replace(context, progress=watch.progress))
    seconds = time.perf_counter() - start
    if not (found.tables or found.figures):
        raise RuntimeError("it returned neither a table nor a figure")
    captured = {**environment.capture(), "seeds": found.seeds, **found.environment}
    store.save(Record(entry.name, preset, round(seconds, 2), captured, found))
    terminal.result(console, entry, found)
    return found


def _nothing_stored(entries: Sequence[Experiment], preset: str, out: Path) -> str:
    names = " ".join(entry.name for entry in entries)
    command = f"isrlu reproduce {names}{' --full' if preset == 'full' else ''}"
    return f"nothing is stored in {out} for {names.replace(' ', ', ')} ({preset} preset): `{command}` makes it"


def _report(out: Path, console: Console) -> None:
    from isrlu_lab.report import build

    path = build.write(out, warn=lambda _: None)  # damaged files have been named already
    console.print(f"report: [bold]{escape(str(path))}[/]", soft_wrap=True, highlight=False)


def _reason(error: Exception) -> str:
    """One line for a person: what went wrong, and what to do if that is known."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (message := install_hint(error)):
        return message
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]} (traceback in failure.json)"


class _Watch:
    """A progress line for the running experiment, refreshed once a second so as not to disturb a measurement."""

    def __init__(self, name: str, expected: str, console: Console):
        self._name, self._expected = name, expected
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

"""Run experiments one after the other. A finished one is not repeated, a failed one does not stop the others."""

import contextlib
import dataclasses
import functools
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from isrlu._missing import install_hint
from isrlu_lab import environment
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import registry, terminal
from isrlu_lab.experiments.context import Context, NothingStored
from isrlu_lab.experiments.experiment import Experiment, Result
from isrlu_lab.experiments.overall_progress import OverallProgress
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

    @functools.cache  # several parts of a command may find the same: one line
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
        overall = _plan(entries, store, preset, again or stored, stored, console)
        for entry in entries:
            try:
                if stored:
                    missing += [] if _show_stored(entry, store, preset, overall, console, options) else [entry]
                elif not _run(entry, store, preset, again, overall, console, options):
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


def _plan(
    entries: Sequence[Experiment], store: Store, preset: str, every: bool, stored: bool, console: Console
) -> OverallProgress:
    """The experiments that will run, without those that have a result; prints how long they will take in all."""
    full = preset == "full"
    waiting = [entry for entry in entries if every or not store.output.result(entry.name, preset).exists()]
    if stored:  # nothing is trained or measured
        waiting = [dataclasses.replace(entry, quick="10 s", full="10 s") for entry in waiting]
    overall = OverallProgress(waiting, full=full, console=console)
    if waiting and not stored:
        count = f"{len(waiting)} of {len(entries)} experiments" if len(entries) > 1 else entries[0].name
        console.print(f"{count}, {preset} preset: about {overall.expected} in all on 2 cores", highlight=False)
    return overall


def _run(
    entry: Experiment,
    store: Store,
    preset: str,
    again: bool,
    overall: OverallProgress,
    console: Console,
    options: Mapping[str, Any],
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
    found = _execute(entry, store, context, overall, console)
    folder.forget_parts()
    return not found.environment.get("runs", {}).get("crashed")


def _show_stored(
    entry: Experiment,
    store: Store,
    preset: str,
    overall: OverallProgress,
    console: Console,
    options: Mapping[str, Any],
) -> bool:
    """Rebuild the result from stored training runs, or show the stored one; returns False if there is neither."""
    record = _load(entry, store, preset, "is left out")
    previous = record.result if record else None
    if entry.trains:
        context = Context(store.folder(entry.name, preset), preset == "full", options=options, previous=previous)
        with contextlib.suppress(NothingStored):
            _execute(entry, store, context, overall, console)
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


def _execute(entry: Experiment, store: Store, context: Context, overall: OverallProgress, console: Console) -> Result:
    """Call the experiment, store its result and print it."""
    preset = "full" if context.full else "quick"
    start = time.perf_counter()
    with overall.begin(entry, context.full) as watch:
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

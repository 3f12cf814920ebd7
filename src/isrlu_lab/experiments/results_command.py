"""`isrlu results`: the training runs in the store of an output folder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import rich
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isrlu_lab.atomic_files import try_to_write, write_json
from isrlu_lab.errors import print_error
from isrlu_lab.experiments.terminal import wide
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.kinds import spec_classes
from isrlu_lab.training.run_store import RunReader, RunStore, open_runs


def merge(stores: Sequence[Path], out: Path) -> int:
    """Copy the runs that are missing in the output folder. Returns 1 if a run cannot be read and was skipped."""
    paths = [OutputFolder(other).runs if other.is_dir() else other for other in stores]
    for path in paths:  # check all stores before anything is written
        open_runs(path).close()
    damaged: list[str] = []
    with RunStore(OutputFolder(out)) as store:
        for path in paths:
            rich.print(f"{store.merge(path, damaged.append)} runs from {escape(str(path))}")
        rich.print(f"{len(store)} runs in {escape(str(store.path))}")
    return _report(damaged)


def show(out: Path, output: Path | None) -> int:
    """List the runs; with `output`, write them with their histories as JSON. Returns 1 if a run cannot be read."""
    if output:
        try_to_write(output, "--json")
    damaged: list[str] = []
    with RunReader(OutputFolder(out).runs) as store:
        runs = list(store.all(damaged.append))
    if output:
        records = [{**dataclasses.asdict(run), "spec": run.spec.to_json(), "hash": run.spec.hash} for run in runs]
        write_json(output, {"runs": records}, "--json")
    kinds = [kind for kind in spec_classes() if any(type(run.spec) is kind for run in runs)]
    shown = {each.name: each for kind in kinds for each in kind.numbers if each.heading}.values()
    table = Table(box=None)
    headings = (each.heading for each in shown)
    for heading in ("run", "network", "what", "length", "seed", "data", "status", *headings):
        table.add_column(heading, no_wrap=heading == "run")
    for run in runs:
        spec, status = run.spec, escape(f"{run.status} {run.reason}".strip())
        results = ((run.result.get(each.name), each.decimals) for each in shown)
        numbers = ["–" if value is None else f"{value:.{decimals}f}" for value, decimals in results]
        table.add_row(spec.hash, spec.network, spec.label, spec.duration, str(spec.seed), spec.data, status, *numbers)
    wide(Console(stderr=str(output) == "-")).print(table)
    return _report(damaged)


def _report(damaged: Sequence[str]) -> int:
    """Print one line for each unreadable run. Returns the exit code."""
    for message in damaged:
        print_error(message)
    return 1 if damaged else 0

"""`isrlu results`: what the store of runs holds."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import rich
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isrlu_lab.atomic_files import try_to_write, write_json
from isrlu_lab.errors import print_error
from isrlu_lab.experiments.study import store_path
from isrlu_lab.experiments.terminal import wide
from isrlu_lab.training.run_store import RunStore

_SHOWN = (("best_accuracy", 2), ("final_loss", 3), ("final_score", 4))


def merge(stores: Sequence[Path], out: Path) -> None:
    """Take over the runs that this output folder's store lacks."""
    paths = [store_path(other) if other.is_dir() else other for other in stores]
    for path in paths:  # all of them, before anything is written
        RunStore(path, write=False).close()
    with RunStore(store_path(out)) as store:
        for path in paths:
            rich.print(f"{store.merge(path)} runs from {escape(str(path))}")
        rich.print(f"{sum(1 for _ in store.all())} runs in {escape(str(store.path))}")


def show(out: Path, output: Path | None) -> int:
    """List the runs; with `output`, write them with their histories as JSON. Returns 1 where one can't be read."""
    if output:
        try_to_write(output, "--json")
    damaged: list[str] = []
    with RunStore(store_path(out), write=False) as store:
        runs = list(store.all(damaged.append))
    if output:
        records = [{**dataclasses.asdict(run), "spec": run.spec.to_json(), "hash": run.spec.hash} for run in runs]
        write_json(output, {"runs": records}, "--json")
    table = Table(box=None)
    for heading in ("run", "network", "what", "length", "seed", "data", "status", "accuracy", "loss x 100", "score"):
        table.add_column(heading, no_wrap=heading == "run")
    for run in runs:
        spec, status = run.spec, escape(f"{run.status} {run.reason}".strip())
        numbers = [f"{run.result[key]:.{digits}f}" if key in run.result else "–" for key, digits in _SHOWN]
        table.add_row(spec.hash, spec.network, spec.label, spec.duration, str(spec.seed), spec.data, status, *numbers)
    wide(Console()).print(table)
    for message in damaged:
        print_error(message)
    return 1 if damaged else 0

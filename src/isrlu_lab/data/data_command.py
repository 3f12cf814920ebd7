"""`isrlu data`: find or download a data set, check it, and print where it is."""

import sys

import rich
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from isrlu_lab.data.locate import find, load
from isrlu_lab.errors import UserError


def show(name: str, folder: str | None) -> None:
    """Print where the data is and what it is; downloads it with a progress bar if necessary."""
    if name != "mnist":
        raise UserError(f"unknown data set {name!r}: known is mnist; other data in its format is given by --data DIR")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as bar:
        tasks: dict[str, object] = {}

        def progress(file: str, done: int, total: int) -> None:
            task = tasks.setdefault(file, bar.add_task(file, total=None) if file not in tasks else None)
            bar.update(task, completed=done, total=total or None)  # type: ignore[arg-type]

        where = find(folder, progress=progress)
    found = load(where)
    counts = f"{len(found.train_labels):,} images to train, {len(found.test_labels):,} to test"
    rich.print(f"[bold]{escape(found.title)}[/] in {escape(where)}: {counts}; identity {found.identity}")

"""`isrlu data`: find or download a data set, check it, and print where it is."""

import sys

import rich
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from isrlu_lab.data import cifar10, locate, text
from isrlu_lab.data.family import IMAGES, load_any
from isrlu_lab.data.text import Text
from isrlu_lab.errors import UserError

KNOWN = {"mnist": locate.find, cifar10.IDENTITY: cifar10.find, text.SHAKESPEARE: text.find}
GIVEN = {cifar10.IDENTITY: cifar10.given, text.SHAKESPEARE: text.given}  # these pass over a folder without their files


def show(name: str, where: str | None) -> None:
    """Print where the data is and what it is; downloads it with a progress bar if necessary."""
    if name not in KNOWN:
        others = "other data in MNIST's format is given by --data DIR, another text by --data FILE"
        raise UserError(f"unknown data set {name!r}: known are {', '.join(KNOWN)}; {others}")
    if where and name in GIVEN and GIVEN[name](where) is None:
        raise UserError(f"{where} has no {name}: give --data another place, or none to find or download it")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, transient=True, disable=not sys.stdout.isatty()) as bar:
        tasks: dict[str, object] = {}

        def progress(file: str, done: int, total: int) -> None:
            task = tasks.setdefault(file, bar.add_task(file, total=None) if file not in tasks else None)
            bar.update(task, completed=done, total=total or None)  # type: ignore[arg-type]

        source = KNOWN[name](where, progress=progress)
    found = load_any(source)
    if name == "mnist":
        IMAGES.check(found)
    if isinstance(found, Text):
        counts = f"{len(found.content):,} characters, {len(set(found.content))} different"
    else:
        counts = f"{len(found.train_labels):,} images to train, {len(found.test_labels):,} to test"
    rich.print(f"[bold]{escape(found.title)}[/] in {escape(source)}: {counts}; identity {found.identity}")

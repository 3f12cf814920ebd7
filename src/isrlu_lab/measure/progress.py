"""Progress of a running bench, on standard error: a table or JSON on standard output can be redirected."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_stderr = Console(stderr=True)


@contextmanager
def bar(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar; the yielded function takes the finished share, 0 to 1."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_stderr) as display:
        task = display.add_task(what, total=1.0)
        yield lambda share: display.update(task, completed=share)


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A status line; the yielded function sets its text."""
    with _stderr.status("") as line:
        yield line.update

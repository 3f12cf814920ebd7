"""One progress line for all experiments of a command: how many are done, the time so far, the expected time in all."""

import contextlib
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from isrlu_lab.experiments.experiment import Experiment

LOG_EVERY = 300.0  # seconds between the lines of a command whose output is a file


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(40), duration(90), duration(540), duration(20_000)
    ('40 s', '90 s', '9 min', '5.6 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class OverallProgress:
    """The experiments that a command runs, with their expected times. Between experiments nothing is drawn."""

    def __init__(self, entries: Sequence[Experiment], *, full: bool, console: Console) -> None:
        self._times = {entry.name: entry.expected_seconds(full) for entry in entries}
        self._done = 0.0
        self._names: list[str] = []
        self._console = console
        self._start = time.monotonic()

    @property
    def expected(self) -> str:
        return duration(sum(self._times.values()))

    def begin(self, entry: Experiment, full: bool) -> "ExperimentProgress":
        """The progress line while this experiment runs. One that was not planned is added to the plan."""
        self._times.setdefault(entry.name, entry.expected_seconds(full))
        self._names.append(entry.name)
        counted = f"{len(self._names)}/{len(self._times)} {entry.name}"
        return ExperimentProgress(self, counted, self._times[entry.name], self._console)

    def finish(self, seconds: float) -> None:
        self._done += seconds

    def share(self, running: float) -> float:
        """The share of the expected time that is done; `running` seconds of it in the current experiment."""
        total = sum(self._times.values())
        return min((self._done + running) / total, 1.0) if total else 1.0

    def elapsed(self) -> str:
        return duration(time.monotonic() - self._start)


class _TimeColumn(ProgressColumn):
    """The time so far, read when the line is drawn, and the expected time in all."""

    def __init__(self, overall: OverallProgress) -> None:
        super().__init__(Column(no_wrap=True))
        self._overall = overall

    def render(self, task: Task) -> Text:
        return Text(f"{self._overall.elapsed()} of about {self._overall.expected}")


class _DetailColumn(ProgressColumn):
    """What is being done. On a narrow terminal this column alone is shortened."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=False))

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


class ExperimentProgress:
    """The progress line, refreshed once a second so as not to disturb a measurement. In a file, a line now and then."""

    def __init__(self, overall: OverallProgress, counted: str, seconds: float, console: Console) -> None:
        self._overall, self._counted, self._seconds = overall, counted, seconds
        columns = (
            TextColumn("[bold]{task.fields[counted]}[/]"),
            BarColumn(bar_width=16),
            _TimeColumn(overall),
            _DetailColumn(),
        )
        self._bar = Progress(*columns, console=console, refresh_per_second=1, transient=True)
        self._drawn = console.is_terminal
        self._logged = time.monotonic()

    def __enter__(self) -> "ExperimentProgress":
        if self._drawn:
            self._bar.start()
        self._task = self._bar.add_task("", total=1.0, counted=self._counted)
        self.progress("")
        self._log(f"about {duration(self._seconds)}; {self._overall.share(0):.0%} of the whole is done")
        return self

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        running = self._seconds * min(done / total, 1.0) if done is not None and total else 0.0
        self._bar.update(self._task, description=text, completed=self._overall.share(running))
        if text and time.monotonic() - self._logged >= LOG_EVERY:
            self._log(f"{text}; {self._overall.elapsed()} of about {self._overall.expected}")

    def _log(self, text: str) -> None:
        self._logged = time.monotonic()
        if self._drawn:
            return
        with contextlib.suppress(OSError, SystemExit):  # a full disk or a closed pipe must not stop the experiment
            self._bar.console.print(f"{self._counted}: {text}", markup=False, highlight=False, soft_wrap=True)

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._bar.stop()
        self._overall.finish(self._seconds)

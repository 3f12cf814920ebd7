"""The argument of every experiment: preset, output folder, progress callback, options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isrlu_lab.errors import UserError
from isrlu_lab.experiments.experiment import Figure, Result
from isrlu_lab.experiments.result_store import Folder

if TYPE_CHECKING:
    import matplotlib.figure


class NothingStored(UserError):
    """With --stored: no training run of the experiment is stored."""


def _silent(text: str, done: float | None = None, total: float | None = None) -> None:
    """Ignore progress reports."""


@dataclass(frozen=True)
class Context:
    """Everything that an experiment may use."""

    folder: Folder
    full: bool = False
    progress: Callable[..., None] = _silent
    """progress(text, done=None, total=None): report the current step and how much of the total is done."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other command-line options: seeds, engine, shard, data, stored. An experiment reads the ones it supports."""
    previous: Result | None = None
    """The result that an earlier command stored, if any."""

    @property
    def stored(self) -> bool:
        """Whether to use only stored runs and measurements (--stored)."""
        return bool(self.options.get("stored"))

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """compute(), or its stored value from an interrupted run. The value must be JSON data.

        It caches the parts of a long experiment, so an interrupted run resumes after the last finished part.
        `key` must contain everything that the part depends on except the preset: "isrlu-alpha3-pkeep0.25-seed0".
        """
        return self.folder.remember(key, compute)

    def figure(self, name: str, figure: "matplotlib.figure.Figure", *, caption: str, alt: str) -> Figure:
        """Store a matplotlib figure (see `isrlu_lab.experiments.figure_style`) as SVG and PNG."""
        from isrlu_lab.experiments import figure_style

        for ending in ("svg", "png"):
            self.folder.write(f"{name}.{ending}", figure_style.render(figure, ending, salt=name))
        return Figure(name, caption, alt)

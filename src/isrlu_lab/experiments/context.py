"""What an experiment gets: the preset, a folder for its files, a function that reports progress."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isrlu_lab.errors import UserError
from isrlu_lab.experiments.experiment import Figure, Result
from isrlu_lab.experiments.result_store import Folder

if TYPE_CHECKING:
    import matplotlib.figure


class NothingStored(UserError):
    """With --stored: none of the training runs that the experiment needs is stored."""


def _silent(text: str, done: float | None = None, total: float | None = None) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class Context:
    """What an experiment may use."""

    folder: Folder
    full: bool = False
    progress: Callable[..., None] = _silent
    """progress(text, done=None, total=None): the current step, and how much is done."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Command-line options beyond the preset: seeds, engine, shard, data, stored. Experiments read those they know."""
    previous: Result | None = None
    """The result stored by an earlier command."""

    @property
    def stored(self) -> bool:
        """Use what is stored: train nothing and measure nothing."""
        return bool(self.options.get("stored"))

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """compute() as JSON data, or what it returned in an earlier run that was interrupted.

        For the parts of a long experiment: an interrupted run resumes after the last finished part.
        `key` must name everything that the part depends on except the preset: "isrlu-alpha3-pkeep0.25-seed0".
        """
        return self.folder.remember(key, compute)

    def figure(self, name: str, figure: "matplotlib.figure.Figure", *, caption: str, alt: str) -> Figure:
        """Store a matplotlib figure (see `isrlu_lab.experiments.figure_style`) as SVG and PNG."""
        from isrlu_lab.experiments import figure_style

        for ending in ("svg", "png"):
            self.folder.write(f"{name}.{ending}", figure_style.render(figure, ending, salt=name))
        return Figure(name, caption, alt)

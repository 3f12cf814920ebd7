"""What an experiment is given: the preset, a place for its files, a way to report progress."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isrlu_lab.experiments.experiment import Figure
from isrlu_lab.experiments.result_store import Folder

if TYPE_CHECKING:
    import matplotlib.figure


def _silent(text: str, done: float | None = None, total: float | None = None) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Context:
    """What an experiment may use: the preset, its own folder in the results store, and a way to tell how far it is."""

    folder: Folder
    full: bool = False
    progress: Callable[..., None] = _silent
    """progress(text, done=None, total=None): what is being done now, and how much of it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the user asked for beyond the preset (seeds, engine, shard, data); each experiment takes what it knows."""

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """compute() as JSON data, or what it gave in a run that was interrupted later.

        For the parts of a long experiment: a killed run goes on after the last finished part.
        `key` must name all that the part depends on except the preset: "isrlu-alpha3-pkeep0.25-seed0".
        """
        return self.folder.remember(re.sub(r"[^\w.=+-]", "_", key), compute)

    def figure(self, name: str, figure: "matplotlib.figure.Figure", *, caption: str, alt: str) -> Figure:
        """Store a matplotlib figure (see `isrlu_lab.experiments.figure_style`) as SVG and PNG."""
        from isrlu_lab.experiments import figure_style

        for ending in ("svg", "png"):
            self.folder.write(f"{name}.{ending}", figure_style.render(figure, ending, salt=name))
        return Figure(name, caption, alt)

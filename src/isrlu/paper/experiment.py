"""What an experiment is given (`Context`) and what it returns (`Result`): all that store and report know of it."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from isrlu.paper import numbers

if TYPE_CHECKING:
    import matplotlib.figure

    from isrlu.paper.results import Folder

Cell = str | float | int | None
Kind = Literal["label", "paper", "here", "spread", "verdict"]
Verdict = Literal["holds", "does not", "undecided", "not run"]
KINDS = ("label", "paper", "here", "spread", "verdict")
VERDICTS = ("holds", "does not", "undecided", "not run")


@dataclass(frozen=True)
class Column:
    """A column: its heading, whose numbers it holds, and the format of its numbers (strings are shown as they are)."""

    title: str
    kind: Kind = "label"
    format: str = "{}"
    bar: bool = False
    """Draw the numbers as bars too; all bars of a table share one scale."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of column {self.kind!r}: known are {', '.join(KINDS)}")

    def text(self, cell: Cell) -> str:
        """The cell as a reader sees it; a missing number is a dash."""
        if cell is None:
            return "–"
        return cell if isinstance(cell, str) else self.format.format(cell)


@dataclass(frozen=True)
class Table:
    """Rows under columns; the paper's numbers and the ones measured here stand side by side."""

    caption: str
    columns: list[Column]
    rows: list[list[Cell]]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"table {self.caption!r} has no rows")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.caption!r}: a row of {len(row)} cells under {len(self.columns)} columns: {row}"
                )
            for column, cell in zip(self.columns, row, strict=True):
                if column.kind == "verdict" and cell not in (*VERDICTS, None):
                    raise ValueError(f"unknown verdict {cell!r}: known are {', '.join(VERDICTS)}")
                try:
                    column.text(cell)
                except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
                    raise ValueError(f"{cell!r} can't be shown in the format {column.format!r}: {error}") from None


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether it holds here, the evidence in a few words, and why not where it does not."""

    text: str
    where: str
    verdict: Verdict
    here: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"unknown verdict {self.verdict!r}: known are {', '.join(VERDICTS)}")
        if self.verdict != "holds" and not self.reason:
            raise ValueError(f"a claim that {self.verdict} needs a reason: {self.text!r}")


def claim(key: str, holds: bool | None, here: str = "", reason: str = "") -> Claim:
    """The claim `key` of paper.toml with its verdict.

    holds: None where it can't be told: what was found (`here`) leaves it undecided, or nothing was run at all.
    reason: why it does not hold, can't be told, or was not run.
    """
    known = numbers.claim(key)
    verdict: Verdict = ("undecided" if here else "not run") if holds is None else "holds" if holds else "does not"
    return Claim(known["text"], known["where"], verdict, here, "" if holds else reason)


@dataclass(frozen=True)
class Figure:
    """A picture: `name`.svg and `name`.png in the experiment's folder, a caption, and a text for who cannot see it."""

    name: str
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if self.name != PurePath(self.name).name:
            raise ValueError(f"the name of a figure is a file name without a folder, got {self.name!r}")


@dataclass(frozen=True)
class Result:
    """What an experiment found. `notes` are paragraphs of text, shown in the report between tables and claims."""

    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    """What the experiment adds to `isrlu.environment.capture()`: a measured clock, threads used."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _silent(text: str, done: float | None = None, total: float | None = None) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Context:
    """What an experiment may use: the preset, its own folder in the results store, and a way to tell how far it is."""

    folder: "Folder"
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
        """Store a matplotlib figure (see `isrlu.paper.style`) as SVG and PNG."""
        from isrlu.paper import style

        for ending in ("svg", "png"):
            self.folder.write(f"{name}.{ending}", style.render(figure, ending, salt=name))
        return Figure(name, caption, alt)


@dataclass(frozen=True)
class Experiment:
    """An entry of the registry: `module` is imported when it runs, and offers `run(context: Context) -> Result`.

    A module may also offer `is_current(environment, context) -> bool`: False where the stored result, known by its
    environment, does not answer what is asked now (it has fewer seeds, say), and the experiment is to run again.
    """

    name: str
    title: str
    summary: str
    quick: str
    """Expected time in the quick preset on 2 cores, for people: "20 s"."""
    full: str
    module: str

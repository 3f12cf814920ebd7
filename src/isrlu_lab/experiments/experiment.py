"""The types of an experiment (`Experiment`) and of what it returns (`Result`), used by the store and the report."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from isrlu_lab.experiments import numbers

Cell = str | float | int | None
Kind = Literal["label", "paper", "here", "spread", "verdict"]
Verdict = Literal["holds", "does not", "undecided", "not run"]
KINDS = ("label", "paper", "here", "spread", "verdict")
VERDICTS = ("holds", "does not", "undecided", "not run")


@dataclass(frozen=True)
class Column:
    """A column: its heading, the source of its numbers, and their format. Strings are shown unchanged."""

    title: str
    kind: Kind = "label"
    format: str = "{}"
    bar: bool = False
    """Whether to draw the numbers as bars too. All bars of a table share one scale."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of column {self.kind!r}: known are {', '.join(KINDS)}")

    def text(self, cell: Cell) -> str:
        """The cell as shown to the reader. A missing number is a dash."""
        if cell is None:
            return "–"
        return cell if isinstance(cell, str) else self.format.format(cell)


@dataclass(frozen=True)
class Table:
    """Columns and rows. The paper's numbers are next to the ones measured here."""

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
    """A statement of the paper, its verdict here, the evidence (`here`), and the reason if it does not hold."""

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

    holds: None if the evidence in `here` does not decide it, or if nothing was run (`here` is empty).
    reason: why it does not hold, is undecided, or was not run.
    """
    known = numbers.claim(key)
    verdict: Verdict = ("undecided" if here else "not run") if holds is None else "holds" if holds else "does not"
    return Claim(known["text"], known["where"], verdict, here, "" if holds else reason)


@dataclass(frozen=True)
class Figure:
    """A figure: `name`.svg and `name`.png in the experiment's folder, a caption, and an alternative text."""

    name: str
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if self.name != PurePath(self.name).name:
            raise ValueError(f"the name of a figure is a file name without a folder, got {self.name!r}")


@dataclass(frozen=True)
class Result:
    """What an experiment returns. `notes` are paragraphs that the report shows between tables and claims."""

    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    """Additions to `isrlu_lab.environment.capture()`: measured clock, threads used, training runs."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Experiment:
    """An entry of the registry. `module` is imported when needed and has `run(context: Context) -> Result`.

    A module may also have `is_current(environment, context) -> bool`. It returns False if the stored result with this
    environment is outdated, for example because it has too few seeds. Then the experiment runs again.
    """

    name: str
    title: str
    summary: str
    quick: str
    """Expected run time of the quick preset on 2 cores, as text: "20 s"."""
    full: str
    module: str
    trains: bool = False
    """Whether it consists of training runs. Then `run` supports `Context.stored`."""

    def expected_seconds(self, full: bool) -> float:
        """The expected run time as a number.

        >>> Experiment("x", "X", "", "2 min", "5 h", "x").expected_seconds(full=False)
        120.0
        """
        number, unit = (self.full if full else self.quick).split()
        return float(number) * {"s": 1, "min": 60, "h": 3600}[unit]

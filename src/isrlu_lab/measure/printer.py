"""The one printer of measurements: tables on the terminal, tables in Markdown, rows in JSON.

A bench describes its tables by a `Layout`. All three forms name the machine, the versions and the command.
"""

import json as json_format
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from isrlu_lab import environment
from isrlu_lab.errors import UserError
from isrlu_lab.measure.measurement import Measurement

Text = Callable[[Measurement], str]


@dataclass(frozen=True)
class Column:
    """A column: its title, and the text of its cell in the row of a measurement."""

    title: str  # where the layout has `across`, "{}" stands for its value
    text: Text


def label_columns(*names: str) -> list[Column]:
    """Untitled columns with the labels of these names."""
    return [Column("", attrgetter(name)) for name in names]


def ratio_column(title: str, name: str) -> Column:
    """The figure of that name, a quotient of two times."""
    return Column(title, lambda m: f"{getattr(m, name):.2f}x")


US_PER_CALL = Column("us/call", lambda m: f"{m.seconds * 1e6:.4g}")
NS_PER_ELEMENT = Column("ns/element", lambda m: f"{m.seconds / m.size * 1e9:.3f}")
OF_RELU = ratio_column("of ReLU", "of_relu")
SPREAD = Column("spread", lambda m: f"{m.spread:.1%}")


@dataclass(frozen=True)
class Layout:
    """How measurements become tables.

    title: measurements of the same title share a table.
    labels: the columns that name a row.
    figures: the columns of numbers.
    across: its values stand side by side, each with its own columns of numbers.
    markdown: the layout for Markdown, where that differs from the terminal's.
    """

    title: Text
    labels: Sequence[Column]
    figures: Sequence[Column]
    across: Callable[[Measurement], Any] = lambda _: 0
    markdown: "Layout | None" = None


Tables = Sequence[tuple[Layout, Sequence[Measurement]]]
"""What a bench returns: measurements, each list with its layout."""


@dataclass(frozen=True)
class Grid:
    """A table as text."""

    title: str
    header: list[str]
    rows: list[list[str]]


def show(tables: Tables, *, markdown: Path | None = None, json: Path | None = None) -> None:
    """Write Markdown and JSON to the given files ("-": standard output); without a file, print to the terminal."""
    measured_on = environment.capture()
    if markdown:
        _write(markdown, markdown_text(tables) + f"\n\n{describe(measured_on)}\n")
    if json:
        rows = [measurement.to_dict() for _, measurements in tables for measurement in measurements]
        _write(json, json_format.dumps({"environment": measured_on, "rows": rows}, indent=1) + "\n")
    if not (markdown or json):
        console = Console()
        for grid in (grid for layout, measurements in tables for grid in grids(layout, measurements)):
            console.print(_rich_table(grid))
        console.print(describe(measured_on), highlight=False, markup=False, soft_wrap=True)


def markdown_text(tables: Tables) -> str:
    """All tables in Markdown, each under its title."""
    return "\n\n".join(
        _markdown_table(grid)
        for layout, measurements in tables
        for grid in grids(layout.markdown or layout, measurements)
    )


def describe(measured_on: dict[str, Any]) -> str:
    """One line: CPU, instruction set, threads, system, versions, command."""
    versions = ", ".join(f"{name} {version}" for name, version in measured_on["versions"].items())
    return (
        f"{measured_on['cpu']}, {measured_on['simd']} (this CPU has {', '.join(measured_on['simd_available'])}), "
        f"{measured_on['threads']} CPUs, {measured_on['os']}; {versions}; `{measured_on['command']}`"
    )


def grids(layout: Layout, measurements: Sequence[Measurement]) -> list[Grid]:
    """The tables as text, in the order in which their titles first occur."""
    by_title: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        by_title.setdefault(layout.title(measurement), []).append(measurement)
    return [_grid(layout, title, members) for title, members in by_title.items()]


def _grid(layout: Layout, title: str, members: list[Measurement]) -> Grid:
    places = sorted({layout.across(member) for member in members})
    header = [column.title for column in layout.labels]
    header += [column.title.format(place) for place in places for column in layout.figures]
    cells: dict[tuple[str, ...], dict[Any, list[str]]] = {}  # labels of a row -> place -> figures
    for member in members:
        labels = tuple(column.text(member) for column in layout.labels)
        cells.setdefault(labels, {})[layout.across(member)] = [column.text(member) for column in layout.figures]
    absent = [""] * len(layout.figures)
    rows = [[*labels, *(text for place in places for text in row.get(place, absent))] for labels, row in cells.items()]
    return Grid(title, header, rows)


def _rich_table(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left")
    for title in grid.header:
        table.add_column(title, justify="right" if title else "left")
    for row in grid.rows:
        table.add_row(*row)
    return table


def _markdown_table(grid: Grid) -> str:
    lines = [f"### {grid.title}", ""] if grid.title else []
    lines += [_markdown_row(grid.header), "|---" * len(grid.header) + "|", *map(_markdown_row, grid.rows)]
    return "\n".join(lines)


def _markdown_row(cells: list[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _write(path: Path, text: str) -> None:
    """Write to a file, or to standard output for "-"."""
    if str(path) == "-":
        print(text, end="")
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None

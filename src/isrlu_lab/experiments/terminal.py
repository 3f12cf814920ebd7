"""Print a result on the terminal: its tables, with the paper's numbers next to the measured ones, and its claims."""

from typing import Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table as RichTable

from isrlu_lab.experiments.experiment import Claim, Experiment, Result, Table

COLOUR = {"holds": "green", "does not": "red", "undecided": "yellow", "not run": "yellow"}
WIDTH = 132  # characters. Tables may exceed the terminal: a wrapped line is easier to read than a truncated number
STYLE = {"label": "", "paper": "cyan", "here": "bold", "spread": "dim", "verdict": ""}


def table(console: Console, shown: Table) -> None:
    """Print one table."""
    grid = RichTable(
        title=escape(shown.caption), title_justify="left", title_style="", header_style="", box=box.SIMPLE_HEAD
    )
    for column in shown.columns:
        whose = f"\n{column.kind}" if column.kind in ("paper", "here", "spread") else ""
        justify: Literal["left", "right"] = "left" if column.kind in ("label", "verdict") else "right"
        width = max(map(len, f"{column.title}{whose}".split()), default=1)  # no word is broken
        grid.add_column(
            escape(column.title) + whose, style=STYLE[column.kind], justify=justify, overflow="fold", min_width=width
        )
    for row in shown.rows:
        cells = (
            _verdict(cell) if column.kind == "verdict" and cell else escape(column.text(cell))
            for column, cell in zip(shown.columns, row, strict=True)
        )
        grid.add_row(*cells)
    unlimited = console.options.update(width=10_000)
    wide(console, Measurement.get(console, unlimited, grid).minimum).print(grid)


def wide(console: Console, least: int = 0) -> Console:
    """A console with the same settings that is at least `WIDTH` and `least` characters wide."""
    width = max(WIDTH, least)
    if console.width >= width:
        return console
    return Console(
        file=console.file,
        width=width,
        force_terminal=console.is_terminal,
        no_color=console.no_color,
        quiet=console.quiet,
    )


def claim(console: Console, shown: Claim) -> None:
    """Print one claim, starting with its verdict."""
    here = f" Here: {shown.here}" if shown.here else ""
    reason = f" {shown.reason}" if shown.reason else ""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(min_width=8)
    grid.add_row(_verdict(shown.verdict), escape(shown.text + here + reason))
    console.print(grid)


def result(console: Console, entry: Experiment, found: Result) -> None:
    """Print a result without its figures, which only the report shows."""
    console.rule(entry.title, align="left")
    for shown in found.tables:
        table(console, shown)
    for note in found.notes:
        console.print(escape(note), highlight=False)
    for each in found.claims:
        claim(console, each)


def listing(console: Console, entries: list[Experiment]) -> None:
    """Print the experiments that `isrlu reproduce` can run, with expected run times on 2 cores."""
    grid = RichTable(box=None)
    for heading in ("name", "quick", "--full", ""):
        grid.add_column(heading)
    for entry in entries:
        grid.add_row(f"[bold]{entry.name}[/]", entry.quick, entry.full, escape(entry.summary))
    console.print(grid)


def _verdict(verdict: object) -> str:
    return f"[{COLOUR[str(verdict)]}]{verdict}[/]"

"""One table from two sources: the paper's numbers, the shipped ones and the ones measured here, side by side.

The columns of a `Table` become groups with one title each: paper, shipped, here. A spread is shown in the cell of the
number that it belongs to: "99.19 ± 0.07". Rows are matched by the label columns at the left.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from isrlu_lab.experiments.experiment import Cell, Column, Table
from isrlu_lab.report.evidence import Source


@dataclass(frozen=True)
class View:
    """A cell as shown: its text, its number if it has a bar, and whether it is a verdict."""

    text: str
    bar: float | None = None
    verdict: bool = False


@dataclass(frozen=True)
class Group:
    """Columns with one title, and who says each of them: "paper", "shipped", "here"."""

    title: str
    sources: list[str]


@dataclass(frozen=True)
class MergedTable:
    """Titles of the label columns, groups of columns, and rows of labels and cells (None: no such number)."""

    caption: str
    labels: list[str]
    groups: list[Group]
    rows: list[tuple[list[str], list[View | None]]]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Title and source of each column after the labels."""
        return [(group.title, source) for group in self.groups for source in group.sources]

    def bar_width(self, view: View | None) -> float | None:
        """Length of a cell's bar in percent of the longest bar of the table; None if it has no bar."""
        if view is None or view.bar is None:
            return None
        longest = max(each.bar for _, cells in self.rows for each in cells if each and each.bar is not None)
        return round(100 * view.bar / longest, 1) if longest > 0 else None


@dataclass
class _Source:
    """The cells of one table by row, title and source."""

    labels: list[str]
    cells: dict[tuple[str, ...], dict[tuple[str, str], View]] = field(default_factory=dict)


def merge(tables: Sequence[tuple[Source, Table]]) -> list[MergedTable]:
    """Tables of both sources. Two of the same caption (without the marks in brackets) become one."""
    pairs: dict[str, dict[Source, Table]] = {}
    for source, table in tables:
        pairs.setdefault(_base(table.caption), {}).setdefault(source, table)
    return [made for base, pair in pairs.items() for made in _merge(base, pair)]


def _merge(base: str, pair: dict[Source, Table]) -> Iterator[MergedTable]:
    found = {source: _read(source, table) for source, table in pair.items()}
    alike = len({tuple(each.labels) for each in found.values()}) == 1
    unique = all(len(found[source].cells) == len(table.rows) for source, table in pair.items())
    if len(pair) > 1 and not (alike and unique):
        for source, table in pair.items():
            yield from _merge(base, {source: table})
        return
    marks = [f"{source}: {table.caption[len(base) :].strip(' []')}" for source, table in pair.items()]
    marks = [mark for mark in marks if not mark.endswith(": ")]
    caption = f"{base} ({'; '.join(marks)})" if marks else base
    labels = next(iter(found.values())).labels
    if not unique:  # two rows of the same labels: keep them as they are
        ((source, table),) = pair.items()
        yield _plain(source, table, caption)
        return
    rows = dict.fromkeys(key for each in found.values() for key in each.cells)
    places = dict.fromkeys(place for each in found.values() for row in each.cells.values() for place in row)
    groups = [
        Group(title, [who for who in ("paper", *pair) if (title, who) in places])
        for title in dict.fromkeys(title for title, _ in places)
    ]
    lookup = {
        (key, place): view
        for each in reversed(found.values())
        for key, row in each.cells.items()
        for place, view in row.items()
    }
    columns = [(group.title, who) for group in groups for who in group.sources]
    yield MergedTable(
        caption, labels, groups, [(list(key), [lookup.get((key, place)) for place in columns]) for key in rows]
    )


def _plain(source: Source, table: Table, caption: str) -> MergedTable:
    count = _label_count(table)
    columns = table.columns[count:]
    groups = [Group(column.title, ["paper" if column.kind == "paper" else source]) for column in columns]
    rows: list[tuple[list[str], list[View | None]]] = [
        (_labels(table, row), [_view(column, cell) for column, cell in zip(columns, row[count:], strict=True)])
        for row in table.rows
    ]
    return MergedTable(caption, [column.title for column in table.columns[:count]], groups, rows)


def _read(source: Source, table: Table) -> _Source:
    count = _label_count(table)
    found = _Source([column.title for column in table.columns[:count]])
    spreads = _spreads(table)
    for row in table.rows:
        views: dict[tuple[str, str], View] = {}
        for place, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
            if place < count or place in spreads:
                continue
            view = _view(column, cell)
            for spread in (at for at, of in spreads.items() if of == place and row[at] is not None):
                text = table.columns[spread].text(row[spread])
                view = View(f"{view.text} ± {text.lstrip('± ')}", view.bar)
            views.setdefault((column.title, "paper" if column.kind == "paper" else source), view)
        found.cells[tuple(_labels(table, row))] = views
    return found


def _spreads(table: Table) -> dict[int, int]:
    """Place of a spread column -> place of its number: one of the same title, else the last number before it."""
    found = {}
    for place, column in enumerate(table.columns):
        if column.kind == "spread":
            numbers = [at for at, other in enumerate(table.columns[:place]) if other.kind == "here"]
            same = [at for at in numbers if table.columns[at].title == column.title]
            if numbers:
                found[place] = (same or numbers)[-1]
    return found


def _view(column: Column, cell: Cell) -> View:
    bar = float(cell) if column.bar and isinstance(cell, (int, float)) else None
    return View(column.text(cell), bar, column.kind == "verdict" and cell is not None)


def _labels(table: Table, row: Sequence[Cell]) -> list[str]:
    return [column.text(cell) for column, cell in zip(table.columns, row, strict=True)][: _label_count(table)]


def _label_count(table: Table) -> int:
    """Number of label columns at the left. Later ones (seeds, significant) are results."""
    kinds = [column.kind for column in table.columns]
    return next((place for place, kind in enumerate(kinds) if kind != "label"), len(kinds))


def _base(caption: str) -> str:
    """The caption without marks such as " [quick preset]"."""
    return re.sub(r" \[[^\]]*\]$", "", caption)

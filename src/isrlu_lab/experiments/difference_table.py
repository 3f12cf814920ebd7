"""The table of differences between rows of a study, paired by seed."""

from collections.abc import Iterable

from isrlu_lab.experiments.experiment import Cell, Column, Table
from isrlu_lab.experiments.stats import Difference


def table(
    caption: str,
    titles: tuple[str, str],
    unit: str,
    found: Iterable[tuple[str, str, Difference]],
    *,
    digits: int = 3,
) -> list[Table]:
    """A table with one row per (what, kind, difference). `titles` are the first two headings. Empty below two seeds."""
    rows: list[list[Cell]] = [
        [what, kind, each.value, each.half, each.p, "yes" if each.significant else "no"]
        for what, kind, each in found
        if each.count > 1
    ]
    columns = [
        *map(Column, titles),
        Column(unit, "here", f"{{:+.{digits}f}}"),
        Column("95 % CI", "spread", f"± {{:.{digits}f}}"),
        Column("p, corrected", "here", "{:.3f}"),
        Column("significant"),
    ]
    return [Table(caption, columns, rows)] if rows else []

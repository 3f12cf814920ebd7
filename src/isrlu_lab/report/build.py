"""Build report.html from the stored results: one file that works offline."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from isrlu_lab.errors import UserError
from isrlu_lab.experiments import numbers, registry
from isrlu_lab.experiments.experiment import VERDICTS, Cell, Claim, Column, Experiment, Result, Table
from isrlu_lab.experiments.result_store import PRESETS, Damaged, Record, Store, load_svg
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.output_folder import write as write_file


@dataclass(frozen=True)
class Section:
    """One experiment in the report: its result, or why it has none."""

    entry: Experiment
    record: Record | None
    failure: str | None
    figures: dict[str, str]
    """Name of the figure -> data URI of its SVG file."""

    @property
    def result(self) -> Result:
        return self.record.result if self.record else Result()

    @property
    def claims(self) -> list[Claim]:
        """The claims with their verdicts. Without a result every verdict is "not run"."""
        if self.record:
            return self.record.result.claims
        reason = f"It failed: {self.failure}" if self.failure else f"Run `isrlu reproduce {self.entry.name}`."
        return [Claim(c["text"], c["where"], "not run", "", reason) for c in numbers.claims(self.entry.name).values()]


def write(out: Path, warn: Callable[[str], None]) -> Path:
    """Write the report of the results under `out` and return its path. `warn` receives a line for each damaged file."""
    return write_file(OutputFolder(out).report, render(collect(out, warn)).encode())


def collect(out: Path, warn: Callable[[str], None]) -> list[Section]:
    """Every experiment of the registry with its result: the full preset if there is one, else the quick preset."""
    if not out.is_dir():
        raise UserError(f"no results in {out}: run `isrlu reproduce` first, or give the folder with --out")
    store = Store(OutputFolder(out), warn)
    return [_section(store, entry) for entry in registry.EXPERIMENTS]


def render(sections: list[Section]) -> str:
    """The report as HTML."""
    try:
        import jinja2
    except ModuleNotFoundError:
        raise UserError("the report needs jinja2: pip install 'isrlu[paper]'") from None
    folder = files("isrlu_lab.report")
    parts = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")}
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["code"] = _code
    environment.globals["width"] = _bar_width
    claims = [claim for section in sections for claim in section.claims]
    return environment.from_string(parts["page.html"]).render(
        css=parts["page.css"],
        js=parts["page.js"],
        sections=sections,
        counts={verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS},
        latest=max((s.record for s in sections if s.record), key=lambda r: r.environment["date"], default=None),
    )


def _section(store: Store, entry: Experiment) -> Section:
    failure = None
    for preset in reversed(PRESETS):
        try:
            record = store.load(entry.name, preset)
        except Damaged as error:
            store.warn(str(error))
            failure = failure or str(error)
            continue
        if record:
            folder = store.folder(entry.name, preset).path
            names = [figure.name for figure in record.result.figures]
            return Section(entry, record, None, {name: _data_uri(load_svg(folder / f"{name}.svg")) for name in names})
        failure = failure or store.load_failure(entry.name, preset)
    return Section(entry, None, failure, {})


def _data_uri(svg: bytes) -> str:
    """An SVG file for the `src` of an <img>. Browsers run no scripts in such an SVG and load no external resources."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _code(text: str) -> str:
    """The text as HTML, with `code` in <code> elements."""
    import markupsafe

    return markupsafe.Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))


def _bar_width(table: Table, column: Column, cell: Cell) -> float | None:
    """Length of a cell's bar in percent of the longest bar of the table; None if the cell has no bar."""
    if not column.bar or not isinstance(cell, (int, float)):
        return None
    cells = [other for row in table.rows for other, of in zip(row, table.columns, strict=True) if of.bar]
    longest = max(other for other in cells if isinstance(other, (int, float)))
    return round(100 * cell / longest, 1) if longest > 0 else None

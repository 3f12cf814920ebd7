"""Build report.html from the shipped results and the stored ones: one file that works offline."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from isrlu._missing import install_extra
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import numbers, registry
from isrlu_lab.experiments.experiment import VERDICTS, Experiment
from isrlu_lab.experiments.result_store import PRESETS, Damaged, Store, load_svg
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.output_folder import write as write_file
from isrlu_lab.report import shipped
from isrlu_lab.report.evidence import Evidence, Judged, judge, strongest
from isrlu_lab.report.merged_table import MergedTable, merge

MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class Section:
    """One experiment in the report: the shipped result, the one made here, or why the last run failed."""

    entry: Experiment
    shipped: Evidence | None = None
    here: Evidence | None = None
    failure: str | None = None

    @property
    def found(self) -> list[Evidence]:
        return [each for each in (self.shipped, self.here) if each]

    @property
    def ordered(self) -> list[Evidence]:
        """The evidence, the stronger first: its figures and notes are shown first."""
        first = strongest(self.entry, self.found)
        return sorted(self.found, key=lambda each: each is not first)

    @property
    def tables(self) -> list[MergedTable]:
        return merge([(each.source, table) for each in self.found for table in each.record.result.tables])

    @cached_property
    def claims(self) -> list[Judged]:
        """The claims with their verdicts. Without any result every verdict is "not run"."""
        if self.found:
            return judge(self.entry, self.found)
        reason = f"It failed: {self.failure}" if self.failure else f"Run `isrlu reproduce {self.entry.name}`."
        claims = numbers.claims(self.entry.name).values()
        return [Judged(each["text"], each["where"], "not run", None, reason, []) for each in claims]


def write(out: Path, warn: Callable[[str], None]) -> Path:
    """Write the report of the shipped results and those under `out`, and return its path.

    `warn` receives a line for each damaged file.
    """
    return write_file(OutputFolder(out).report, render(collect(out, warn)).encode())


def write_shipped(out: Path) -> Path:
    """Write the report of the shipped results alone, and return its path."""
    return write_file(OutputFolder(out).report, render(shipped_sections()).encode())


def shipped_sections() -> list[Section]:
    """Every experiment of the registry with its shipped result."""
    return [Section(entry, shipped_evidence(entry)) for entry in registry.EXPERIMENTS]


def collect(out: Path, warn: Callable[[str], None]) -> list[Section]:
    """Every experiment of the registry with its results; of those made here, the full preset before the quick one."""
    if not out.is_dir():
        raise UserError(
            f"no results in {out}: run `isrlu reproduce` first, give the folder with --out, "
            "or see the shipped results with --shipped"
        )
    store = Store(OutputFolder(out), warn)
    return [_section(store, entry) for entry in registry.EXPERIMENTS]


def render(sections: list[Section]) -> str:
    """The report as HTML."""
    try:
        import jinja2
    except ModuleNotFoundError:
        raise UserError(f"the report needs jinja2: {install_extra('cli')}") from None
    folder = files("isrlu_lab.report")
    parts = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")}
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["code"] = _code
    claims = [claim for section in sections for claim in section.claims]
    here = [section.here.record for section in sections if section.here]
    return environment.from_string(parts["page.html"]).render(
        css=parts["page.css"],
        js=parts["page.js"],
        sections=sections,
        counts={verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS},
        latest=max(here, key=lambda record: record.environment["date"], default=None),
        made_here=len(here),
        shipped_cpus=sorted({s.shipped.record.environment["cpu"] for s in sections if s.shipped}),
    )


def shipped_evidence(entry: Experiment) -> Evidence | None:
    """The shipped result of an experiment. A figure without a file is left out."""
    record = shipped.load(entry.name)
    if record is None:
        return None
    paths = {figure.name: shipped.figure(entry.name, figure.name) for figure in record.result.figures}
    return Evidence("shipped", record, {name: _data_uri(path) for name, path in paths.items() if path})


def _section(store: Store, entry: Experiment) -> Section:
    failure, found = None, shipped_evidence(entry)
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
            figures = {name: _data_uri(folder / f"{name}.svg") for name in names}
            return Section(entry, found, Evidence("here", record, figures))
        failure = failure or store.load_failure(entry.name, preset)
    return Section(entry, found, None, failure)


def _data_uri(path: Path) -> str:
    """A figure for the `src` of an <img>. Browsers run no scripts in such an SVG and load no external resources."""
    content = load_svg(path) if path.suffix == ".svg" else path.read_bytes()
    return f"data:{MEDIA[path.suffix]};base64,{base64.b64encode(content).decode()}"


def _code(text: str) -> str:
    """The text as HTML, with `code` in <code> elements."""
    import markupsafe

    return markupsafe.Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))

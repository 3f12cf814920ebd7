"""The report's two sources: shipped results answer every claim, the stronger evidence decides, and says whose it is."""

import dataclasses
import html
import re
from pathlib import Path

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("msgspec")

from isrlu_lab.cli import app
from isrlu_lab.experiments import numbers, registry
from isrlu_lab.experiments.experiment import Claim, Column, Experiment, Result, Table
from isrlu_lab.experiments.result_store import Record
from isrlu_lab.report import build, shipped
from isrlu_lab.report.evidence import Evidence, judge
from isrlu_lab.report.merged_table import merge

TRAINS = Experiment("x", "X", "", "1 s", "1 s", "x", trains=True)
MEASURES = dataclasses.replace(TRAINS, trains=False)


@pytest.mark.parametrize("entry", registry.EXPERIMENTS, ids=lambda entry: entry.name)
def test_a_shipped_result_answers_every_claim(entry: Experiment) -> None:
    """A verdict, or undecided with its evidence; never "not run". Every figure has a file."""
    record = shipped.load(entry.name)
    if record is None:
        pytest.skip(f"{entry.name} has no shipped result yet")
    assert record.preset == "full"
    claims = {claim.text: claim for claim in record.result.claims}
    assert {claim["text"] for claim in numbers.claims(entry.name).values()} <= set(claims)
    assert all(claim.verdict != "not run" and claim.here for claim in claims.values())
    assert all(shipped.figure(entry.name, figure.name) for figure in record.result.figures)
    assert " /" not in record.environment["command"], "a path of one machine"


def test_every_experiment_has_a_shipped_result() -> None:
    assert [entry.name for entry in registry.EXPERIMENTS if shipped.load(entry.name) is None] == []


def test_shipped_is_a_whole_report_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        app(["report", "--shipped", "--out", str(tmp_path / "new")])
    assert exit.value.code == 0 and "report.html" in capsys.readouterr().out.replace("\n", "")
    page = (tmp_path / "new" / "report.html").read_text()
    for entry in registry.EXPERIMENTS:
        for claim in numbers.claims(entry.name).values():
            text = html.escape(claim["text"].partition("'")[0])
            assert re.sub("`(.+?)`", r"<code>\1</code>", text) in page
    assert 'class="badge not-run"' not in page
    assert 'class="source here"' not in page and "Nothing has been run <strong>here</strong>" in page


def evidence(
    source: str, verdict: str, *, seeds: int = 1, preset: str = "quick", here: str = "found", spread: float = 0.1
) -> Evidence:
    environment = {"cpu": "CPU", "simd": "avx2", "threads": 1, "versions": {}, "command": "isrlu reproduce x"}
    environment |= {"date": "2026-01-02T03:04", "seeds": list(range(seeds)), "runs": {}, "largest_spread": spread}
    claim = Claim("It is fast.", "section 1", verdict, "" if verdict == "not run" else f"{here} {source}", "why")
    return Evidence(source, Record("x", preset, 1.0, environment, Result([], [claim])), {})


@pytest.mark.parametrize(
    ("entry", "shipped_run", "here_run", "verdict", "whose"),
    [
        (TRAINS, ("holds", 5, "full"), ("not run", 1, "quick"), "holds", "shipped"),
        (TRAINS, ("undecided", 1, "full"), ("does not", 3, "full"), "does not", "here"),
        (TRAINS, ("holds", 5, "full"), ("does not", 3, "full"), "holds", "shipped"),
        (TRAINS, ("holds", 3, "full"), ("does not", 3, "full"), "does not", "here"),
        (TRAINS, ("does not", 3, "full"), ("undecided", 9, "full"), "does not", "shipped"),
        (MEASURES, ("holds", 0, "full"), ("does not", 0, "quick"), "does not", "here"),
        (MEASURES, ("holds", 0, "full"), ("undecided", 0, "full"), "holds", "shipped"),
        (TRAINS, ("not run", 5, "full"), ("not run", 1, "quick"), "not run", None),
    ],
)
def test_the_stronger_evidence_decides(entry, shipped_run, here_run, verdict, whose) -> None:
    found = [
        evidence(source, each[0], seeds=each[1], preset=each[2])
        for source, each in (("shipped", shipped_run), ("here", here_run))
    ]
    (judged,) = judge(entry, found)
    assert (judged.verdict, judged.source) == (verdict, whose)
    ran = [[each.source] for each in found if each.record.result.claims[0].verdict != "not run"]
    assert [sources for sources, _ in judged.findings] == ran, "every source's finding is shown as its own"


@pytest.mark.parametrize(("spreads", "whose"), [((0.1, 0.4), "here"), ((0.1, 0.6), "shipped"), ((0.6, 0.6), "here")])
def test_a_disturbed_measurement_is_weaker(spreads: tuple[float, float], whose: str) -> None:
    theirs, ours = spreads
    found = evidence("shipped", "holds", spread=theirs), evidence("here", "does not", spread=ours)
    assert judge(MEASURES, found)[0].source == whose


def test_the_page_says_whose_verdict_it_is() -> None:
    found = evidence("shipped", "holds", seeds=5, preset="full"), evidence("here", "undecided")
    page = build.render([build.Section(TRAINS, *found)])
    assert re.search(r'<b class="source shipped">shipped</b> +found shipped</p>', page)
    assert re.search(
        r'<b class="source here">here</b> +found here <span class="badge undecided">undecided</span>', page
    )
    assert "5 seeds, full preset, CPU, 2026-01-02" in page and "1 seed, quick preset, CPU, 2026-01-02" in page


def test_code_in_a_claim_is_shown_as_code() -> None:
    """In the summary and in the experiment's section."""
    entry = registry.select(["normfree"])[0]
    page = build.render([build.Section(entry, build.shipped_evidence(entry))])
    assert page.count("DyISRU with <code>fit</code> starts") == 2 and "`fit`" not in page


COLUMNS = [
    Column("name"),
    Column("ms", "paper"),
    Column("ms", "here"),
    Column("95 % CI", "spread", "± {}"),
    Column("n"),
]


def test_tables_of_both_sources_become_one() -> None:
    ours = Table("Times", COLUMNS, [["a", 1, 2, 0.1, 5], ["b", 3, 4, None, 5]])
    yours = Table("Times [quick preset]", COLUMNS, [["b", 3, 8, 0.5, 1], ["c", None, 9, None, 1]])
    (made,) = merge([("shipped", ours), ("here", yours)])
    assert made.caption == "Times (here: quick preset)" and made.labels == ["name"]
    assert made.columns == [("ms", "paper"), ("ms", "shipped"), ("ms", "here"), ("n", "shipped"), ("n", "here")]
    shown = [[*labels, *(view.text if view else None for view in cells)] for labels, cells in made.rows]
    assert shown == [
        ["a", "1", "2 ± 0.1", None, "5", None],
        ["b", "3", "4", "8 ± 0.5", "5", "1"],
        ["c", "–", None, "9", None, "1"],
    ]


def test_tables_that_do_not_match_stay_apart() -> None:
    ours, yours = (Table(caption, COLUMNS, [["a", 1, 2, None, 5]]) for caption in ("On avx2", "On neon"))
    assert [table.caption for table in merge([("shipped", ours), ("here", yours)])] == ["On avx2", "On neon"]
    twice = Table("Times", COLUMNS, [["a", 1, 2, None, 5], ["a", 1, 3, None, 5]])
    once = Table("Times", COLUMNS, [["a", 1, 4, None, 5]])
    apart = merge([("shipped", twice), ("here", once)])
    assert [table.columns[-1][1] for table in apart] == ["shipped", "here"]
    assert [len(table.rows) for table in apart] == [2, 1], "no row is lost"

"""The paper's numbers as data, the registry, and the experiments that need no timing."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from isrlu_lab.experiments import numbers, registry
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.result_store import Folder
from isrlu_lab.output_folder import OutputFolder

pytest.importorskip("matplotlib")
QUICK = ("figure1", "figure2")


def test_table3_was_typed_correctly():
    """The printed advantages are quotients of the printed times, to the printed digits (rounding of both: 0.011)."""
    paper = numbers.table("table3")
    for row, ns in paper["ns"].items():
        assert ns / paper["ns"]["ISRLU"] == pytest.approx(paper["isrlu_advantage"][row], abs=0.011)
        assert ns / paper["ns"]["ISRLU (approx.)"] == pytest.approx(paper["approx_advantage"][row], abs=0.011)


@pytest.mark.parametrize("cpu", ["haswell", "broadwell", "skylake"])
def test_table2_was_typed_correctly(cpu: str):
    column = numbers.table("table2")[cpu]
    for name in ("Exp", "Tanh"):
        assert column[name] / column["InvSqrt"] == pytest.approx(column[f"{name}/InvSqrt"], abs=0.06)


def test_table4_is_sorted_as_the_paper_prints_it():
    rows = numbers.table("table4")["rows"]
    assert len(rows) == 8 and len(numbers.table("table5")["rows"]) == 3
    assert [row["loss"] for row in rows] == sorted(row["loss"] for row in rows)
    assert [row["accuracy"] for row in rows] == sorted((row["accuracy"] for row in rows), reverse=True)


def test_every_claim_has_text_and_place():
    for experiment, claims in numbers.paper()["claims"].items():
        for key in claims:
            claim = numbers.claim(f"{experiment}.{key}")
            assert claim.keys() == {"text", "where"} and claim["text"].endswith("."), key


def test_registry_entries_are_complete_and_distinct():
    names = [entry.name for entry in registry.EXPERIMENTS]
    assert len(set(names)) == len(names)
    for entry in registry.EXPERIMENTS:
        assert entry.quick and entry.full and entry.summary and entry.title, entry.name
        assert callable(registry.load(entry))


def test_select_keeps_the_order_of_the_paper():
    assert [entry.name for entry in registry.select(["figure2", "figure1"])] == ["figure1", "figure2"]
    assert registry.select([]) == list(registry.EXPERIMENTS)


@pytest.mark.parametrize("name", QUICK)
def test_figures(name: str, tmp_path: Path):
    (entry,) = registry.select([name])
    result = registry.load(entry)(Context(Folder(OutputFolder(tmp_path.parent), tmp_path.name)))
    assert result.figures and len(result.claims) == len(numbers.claims(name))
    assert [claim.verdict for claim in result.claims] == ["holds"] * len(result.claims)
    for figure in result.figures:
        svg = (tmp_path / f"{figure.name}.svg").read_text()
        paths = ElementTree.fromstring(svg).findall(".//{http://www.w3.org/2000/svg}path")
        assert len(paths) > 10, "an empty figure"
        assert re.search(r'id="patch_1">\s*<path [^>]*style="fill: none', svg), "the background is not transparent"
        assert (tmp_path / f"{figure.name}.png").read_bytes()[:4] == b"\x89PNG"
        assert figure.caption and len(figure.alt) > 40


@pytest.mark.slow
def test_figures_are_the_same_bytes_each_time(tmp_path: Path):
    """No date and no random id in a figure: a repeated run leaves the same files."""
    run = registry.load(registry.select(["figure2"])[0])
    for folder in ("a", "b"):
        run(Context(Folder(OutputFolder(tmp_path), folder)))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name

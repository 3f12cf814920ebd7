"""Tables 1 to 3 and the accuracy rows: complete, checked before they are timed, right without optional packages."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import isrlu
from isrlu_lab import _measure
from isrlu_lab.experiments import mkl, numbers, registry
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Result
from isrlu_lab.experiments.result_store import Folder
from isrlu_lab.measure import cycle_timer
from isrlu_lab.measure.timer import Sample
from isrlu_lab.output_folder import OutputFolder

SIMDS = list(isrlu.simd_available())


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three short rounds: what is tested here is the table, not the times."""
    monkeypatch.setattr(cycle_timer, "ROUNDS", {False: 3, True: 5})
    monkeypatch.setattr(cycle_timer, "measure_loops", partial(cycle_timer.measure_loops, slice_seconds=1e-5))


def run(name: str, folder: Path) -> Result:
    (entry,) = registry.select([name])
    return registry.load(entry)(Context(Folder(OutputFolder(folder), f"{name}-quick")))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table1", "table2", "table3", "accuracy"])
def test_nothing_is_empty(name: str, tmp_path: Path):
    result = run(name, tmp_path)
    assert result.tables and result.notes
    assert len(result.claims) == len(numbers.claims(name))
    for table in result.tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row, strict=True):
                if column.kind == "here":
                    assert isinstance(cell, float) and 0 < cell < 1e4, (table.caption, row)
    for claim in result.claims:
        assert claim.here and (claim.verdict == "holds" or claim.reason)
    if name != "accuracy":
        assert 0.1 < result.environment["clock_ghz"] < 10


def test_table1_has_the_paper_beside_here(tmp_path: Path):
    (table,) = run("table1", tmp_path).tables
    assert [row[:4] for row in table.rows] == [["5x5", 25, 24, 4.25], ["3x3", 9, 8, 1.53], ["3x1", 3, 2, 0.51]]
    assert all(row[-1] in ("holds", "does not") for row in table.rows)


def test_table1_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    (table,) = run("table1", tmp_path).tables
    assert not any("torch" in column.title for column in table.columns)


def test_table2_covers_every_instruction_set(tmp_path: Path):
    result = run("table2", tmp_path)
    table, methods = result.tables
    titles = [column.title for column in table.columns if column.kind == "here"]
    assert titles[: len(SIMDS)] == SIMDS
    assert [row[0] for row in table.rows] == ["InvSqrt", "Exp", "Tanh", "Exp/InvSqrt", "Tanh/InvSqrt"]
    assert [row[1:4] for row in table.rows] == [
        [0.66, 0.64, 0.24],
        [0.81, 0.89, 0.52],
        [4.19, 4.43, 0.78],
        [1.2, 1.4, 2.2],
        [6.3, 6.9, 3.3],
    ]
    assert {row[1] for row in methods.rows} == {"approx", "newton1", "newton2", "full", "ieee", "kinney", "table"}


def test_table2_without_mkl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mkl, "library", lambda: None)
    result = run("table2", tmp_path)
    assert not any("MKL" in column.title for column in result.tables[0].columns)
    assert "the PyPI package `mkl` is not installed" in result.notes[-1]


@pytest.mark.skipif(mkl.library() is None, reason="the PyPI package mkl is not installed")
@pytest.mark.parametrize(("name", "exact"), [("InvSqrt", lambda x: 1 / np.sqrt(x)), ("Exp", np.exp), ("Tanh", np.tanh)])
def test_mkl_computes_what_its_name_says(name: str, exact):
    x = np.linspace(0.01, 8, 1000, dtype=np.float32)
    y = np.empty_like(x)
    mkl.function(name)(x, y)
    np.testing.assert_allclose(y, exact(x.astype(np.float64)), rtol=1e-3)


@pytest.mark.slow
def test_table3_shows_cache_and_memory_and_both_advantages(tmp_path: Path):
    result = run("table3", tmp_path)
    assert len(result.tables) in (2, 4)
    for table in result.tables:
        assert [row[0] for row in table.rows] == ["ReLU", "ISRU (approx.)", "ISRLU (approx.)", "ISRLU", "ELU"]
        isrlu_row, approx_row = table.rows[3], table.rows[2]
        assert isrlu_row[6] == 1 and approx_row[8] == 1
    assert "in the cache" in result.tables[0].caption and "in memory" in result.tables[1].caption


@pytest.mark.slow
def test_accuracy_rows(tmp_path: Path):
    (table,) = run("accuracy", tmp_path).tables
    best = {row[1]: row[2 + len(SIMDS)] for row in table.rows}
    assert best["approx"] > (7.9 if SIMDS[-1] == "neon" else 11.4), "ARM has 8 bits, x86 promises 1.5 * 2^-12"
    assert best["kinney"] == pytest.approx(-np.log2(0.00175), abs=0.02)
    assert best["approx"] < best["newton1"] < best["newton2"] + 0.1
    assert best["full"] > 23 and best["ieee"] > 23


@pytest.mark.parametrize("simd", SIMDS)
@pytest.mark.parametrize("name", ["5x5", "3x3", "3x1", "1x3"])
@pytest.mark.parametrize("columns", [20, 21, 35, 68, 69, 132, 137])
def test_convolution(simd: str, name: str, columns: int):
    height, width = int(name[0]), int(name[2])
    rows = 9
    random = np.random.default_rng(columns)
    image = random.standard_normal((rows, columns)).astype(np.float32)
    weights = random.standard_normal((height, width)).astype(np.float32)
    out = np.full((rows - height + 1, columns - width + 1), np.nan, np.float32)
    guard = np.concatenate([out.ravel(), np.full(16, 7, np.float32)])
    _measure.time_convolution(simd, name, image.ctypes.data, weights.ctypes.data, guard.ctypes.data, rows, columns)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (height, width))
    want = np.einsum("yxij,ij->yx", windows, weights.astype(np.float64))
    np.testing.assert_allclose(guard[:-16].reshape(out.shape), want, rtol=1e-5, atol=1e-5)
    assert (guard[-16:] == 7).all(), "written past the end"


def test_convolution_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="unknown filter '7x7': known are 5x5, 3x3, 3x1, 1x3"):
        _measure.time_convolution(SIMDS[0], "7x7", 0, 0, 0, 32, 32)
    with pytest.raises(ValueError, match="the image is smaller"):
        _measure.time_convolution(SIMDS[0], "5x5", 0, 0, 0, 4, 32)
    with pytest.raises(ValueError, match="the image is smaller"):
        _measure.time_convolution(SIMDS[0], "5x5", 0, 0, 0, 32, 19)


def test_cycles_follow_the_clock_of_the_same_round():
    """A machine that slows to half its clock in one round takes twice the time and the same cycles."""
    samples = {"work": Sample((2e-6, 1e-6, 2e-6)), cycle_timer.CLOCK: Sample((2e-9, 1e-9, 2e-9))}
    assert cycle_timer.cycles(samples, "work", 100) == pytest.approx(10)

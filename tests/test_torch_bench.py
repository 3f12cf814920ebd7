"""The benchmark's parts: contenders are checked before they are timed; peak memory is a property of the code."""

import json
import os

import pytest
import torch
from typer.testing import CliRunner

from isrlu_lab.cli import app
from isrlu_lab.measure import torch_bench as calls
from isrlu_lab.measure import training_step_bench


def test_rows_of_every_contender() -> None:
    names = ("elu", "isrlu", "isrlu approx")
    rows = calls.run((16, 1000), (1,), rounds=2, contenders=names)
    assert [row.contender for row in rows[:4]] == ["relu", *names]
    assert {(row.size, row.direction) for row in rows} == {
        (size, direction) for size in (16, 1000) for direction in ("forward", "forward and backward")
    }
    assert all(row.seconds > 0 and row.threads == 1 for row in rows)
    assert all(row.of_relu == 1 for row in rows if row.contender == "relu")


def test_a_wrong_contender_is_not_timed() -> None:
    with pytest.raises(AssertionError, match="isrlu: "):
        calls.check("isrlu", torch.tanh)


@pytest.mark.parametrize("architecture", (1, pytest.param(2, marks=pytest.mark.slow)))
def test_in_place_needs_the_memory_of_relu(architecture: int) -> None:
    peaks = {
        (name, inplace): training_step_bench.peak_memory(
            training_step_bench.training_step(architecture, name, inplace, batch=50)
        )
        for name in ("relu", "isrlu")
        for inplace in (True, False)
    }
    assert peaks["isrlu", True] == peaks["relu", True]
    if architecture == 2:  # architecture 1's peak is within Adam, which outweighs its activations
        assert peaks["isrlu", False] > peaks["isrlu", True]


def test_the_profiler_writes_nothing_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(1000)
    assert training_step_bench.peak_memory(lambda: torch.relu(x)) >= x.nbytes
    assert capfd.readouterr().err == ""
    os.write(2, b"open again")
    assert capfd.readouterr().err == "open again"


@pytest.mark.slow
def test_command(tmp_path) -> None:
    path = tmp_path / "figures.json"
    options = ["--size", "16", "--threads", "1", "--rounds", "2", "--no-steps", "--json", str(path)]
    result = CliRunner().invoke(app, ["bench", "torch", *options])
    assert result.exit_code == 0, result.output
    figures = json.loads(path.read_text())
    assert {row["contender"] for row in figures["rows"]} == set(calls.CONTENDERS)
    assert figures["environment"]["simd"]

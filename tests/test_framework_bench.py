"""`isrlu bench jax|keras`: every contender is measured, ours are checked first, and mistakes are one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isrlu.testing import derivative, reference
from isrlu_lab.measure import framework_bench

NAMES = {"relu", "elu", "silu", "gelu", "tanh", "isrlu", "isru"}


def _isrlu(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isrlu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["jax", "keras"])
def test_figures_as_json(framework: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    options = ["--backend", "jax"] if framework == "keras" else []
    path = tmp_path / "figures.json"
    done = _isrlu("bench", framework, *options, "--size", "1000", "--rounds", "2", "--json", str(path))
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    assert found["environment"]["versions"]["jax"]
    for direction in ("forward", "gradient"):
        rows = [row for row in found["rows"] if row["direction"] == direction]
        assert {row["contender"] for row in rows} == NAMES
        assert all(row["seconds"] > 0 for row in rows)
    if framework == "keras":
        steps = [row["contender"] for row in found["rows"] if row["direction"] == "train step"]
        assert steps == ["relu", "elu", "isrlu"]


@pytest.mark.slow
def test_table() -> None:
    pytest.importorskip("jax")
    done = _isrlu("bench", "jax", "--size", "1000", "--rounds", "2", COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert "jax, 1,000 elements, gradient" in done.stdout and "of ReLU" in done.stdout


def test_unknown_backend_is_one_line() -> None:
    done = _isrlu("bench", "keras", "--backend", "theano")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["isrlu: unknown Keras backend 'theano': known are tensorflow, jax, torch"]


def test_onnx() -> None:
    pytest.importorskip("onnxruntime")
    done = _isrlu("bench", "onnx", "--size", "1000", "--rounds", "2", "--json", "-")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["contender"] for row in rows] == ["relu", "elu", "tanh", "isrlu", "isru"] * 2
    assert {row["direction"] for row in rows} == {"forward", "perceptron"}


@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_a_wrong_result_is_not_timed(direction: str) -> None:
    x, upstream = np.random.default_rng(0).standard_normal((2, 100)).astype(np.float32)
    isru, isrlu = (
        reference(name, x) if direction == "forward" else upstream * derivative(name, x) for name in ("isru", "isrlu")
    )
    right = {"isru": lambda: isru, "isrlu": lambda: isrlu}
    framework_bench.check(right, direction, x, upstream)
    for name in right:
        for wrong in (right[name]() * 1.001, np.full(100, np.nan)):
            with pytest.raises(AssertionError, match=f"{name}, {direction}"):
                framework_bench.check(right | {name: lambda wrong=wrong: wrong}, direction, x, upstream)

"""A new kind of run needs its own module and one line in the registry: grid, store, commands and merging follow."""

import json
import sqlite3
from pathlib import Path

import pytest
import torch
from toy_kind import LINE, History, ToySpec, specs

from isrlu_lab.errors import UserError
from isrlu_lab.experiments import results_command
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training import kinds
from isrlu_lab.training.checkpoint import Checkpoint
from isrlu_lab.training.grid import make_engine, run_grid
from isrlu_lab.training.kinds import load_spec
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run, RunReader, RunStore
from isrlu_lab.training.worker import checkpoint_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OutputFolder:
    """The registry has the toy kind, and the folder a run of another kind."""
    monkeypatch.setitem(kinds.KINDS, "toy", LINE)
    folder = OutputFolder(tmp_path / "results")
    with RunStore(folder) as store:
        store.add(Run(MnistSpec(), "done", result={"best_accuracy": 99.25}))
    return folder


@pytest.mark.slow
def test_grid_checkpoint_store_and_commands(folder: OutputFolder, capsys: pytest.CaptureFixture[str]) -> None:
    half = specs()[1]
    network = torch.nn.Linear(1, 1)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    path = checkpoint_path(folder.checkpoints, half)
    Checkpoint(path, half, network, optimiser).save(2, 2, History([1.0, 0.5]))
    with RunStore(folder) as store:
        runs = run_grid(specs(), store, make_engine("local", "digits", folder.checkpoints, workers=1))
    assert [runs[spec.hash].status for spec in specs()] == ["done"] * 3
    assert [runs[spec.hash].result["history"]["resumed"] for spec in specs()] == [0, 2, 0]
    assert not path.exists()

    database = sqlite3.connect(folder.runs)
    rows = database.execute(
        "SELECT slope, laps, round(wobble, 3), best_accuracy FROM summary ORDER BY slope"
    ).fetchall()
    database.close()
    assert rows == [(None, None, None, 99.25), *[(2.0, 3, 3.333, None)] * 3]

    output = folder.root / "runs.json"
    assert results_command.show(folder.root, output) == 0
    shown = capsys.readouterr().out
    assert "wobble, mm" in shown and "accuracy" in shown
    (line,) = (line for line in shown.splitlines() if half.hash in line)
    words = [word for word in line.split()[1:] if word != "–"]  # a dash for each number of another kind
    assert words == ["line", "slope", "2.0", "3", "laps", "1", "digits", "done", "3.3"]
    written = json.loads(output.read_text())["runs"]
    assert {load_spec(each["spec"]) for each in written} == {MnistSpec(), *specs()}

    other = OutputFolder(folder.root.parent / "other")
    assert results_command.merge([folder.root], other.root) == 0
    with RunReader(other.runs) as store:
        assert {run.spec for run in store.all()} == {MnistSpec(), *specs()}


def test_the_shape_of_a_result_is_that_of_its_kind(folder: OutputFolder) -> None:
    with RunStore(folder) as store:
        store.add(Run(ToySpec(), "done", result={"wobble": "much"}))
        with pytest.raises(UserError, match=r"Expected `float`, got `str` - at `\$\.result\.wobble`"):
            store.find([ToySpec()])
        store.add(Run(ToySpec(seed=1), "done", result={"best_accuracy": "not a number of this kind"}))
        assert len(store.find([ToySpec(seed=1)])) == 1


def test_a_kind_without_its_line_is_unknown(folder: OutputFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore(folder) as store:
        store.add(Run(ToySpec(), "done"))
    monkeypatch.delitem(kinds.KINDS, "toy")
    told: list[str] = []
    with RunReader(folder.runs) as store:
        assert [run.spec for run in store.all(told.append)] == [MnistSpec()]
    assert len(told) == 1 and "unknown kind of run 'toy': known are rnn" in told[0]

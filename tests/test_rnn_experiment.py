"""The recurrent experiment: its tasks, its training, its tables, and that a killed run goes on where it was."""

import dataclasses
import json
from typing import Any

import pytest
import torch

from isrlu_lab import data
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import registry, results_command
from isrlu_lab.experiments import rnn as experiment
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.measure import recurrent_bench as bench
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.grid import make_engine, run_grid
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.kinds import load_spec
from isrlu_lab.training.recurrent import train_recurrent as training
from isrlu_lab.training.recurrent.recurrent_spec import GATES, LAYERS, TASKS, RecurrentSpec
from isrlu_lab.training.run_store import Run, RunStore

TINY = {"hidden": 8, "steps": 4, "interval": 2, "batch": 10, "data": "digits"}


@pytest.fixture(scope="module")
def tensors() -> ImageTensors:
    return ImageTensors(data.digits())


def numbers(history: training.History) -> dict:
    return {**dataclasses.asdict(history), "seconds": 0.0}


def test_adding_problem() -> None:
    """One mark in each half, and the target is the sum of the marked numbers."""
    x, target = next(training.sums(200, 50, torch.Generator().manual_seed(3)))
    assert x.shape == (200, 50, 2) and target.shape == (50, 1)
    drawn, marks = x.unbind(2)
    assert (marks[:100].sum(0) == 1).all() and (marks[100:].sum(0) == 1).all()
    torch.testing.assert_close((drawn * marks).sum(0), target[:, 0])


def test_rows_are_the_images_rows() -> None:
    images = torch.arange(2.0 * 28 * 28).reshape(2, 1, 28, 28)
    assert torch.equal(training.rows(images)[5], images[:, 0, 5])


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("task", TASKS)
def test_training_is_repeatable_and_learns(tensors, layer, gates, task) -> None:
    spec = RecurrentSpec(task=task, layer=layer, gates=gates, **TINY)
    first, again = (numbers(training.train(spec, tensors)) for _ in range(2))
    assert first == again
    assert first["steps"] == [2, 4] and len(first["score"]) == len(first["loss"]) == 2
    assert numbers(training.train(dataclasses.replace(spec, seed=1), tensors)) != first
    longer = training.train(dataclasses.replace(spec, steps=60, interval=20), tensors)
    assert longer.loss[-1] < longer.loss[0]


@pytest.mark.parametrize("task", TASKS)
def test_an_interrupted_run_ends_with_the_same_bits(tensors, task, tmp_path) -> None:
    spec = RecurrentSpec(task=task, layer="GRU", **{**TINY, "steps": 7})
    whole = training.train(spec, tensors)
    assert whole.steps == [2, 4, 6, 7]

    def stop(history: training.History, rate: float) -> None:
        assert rate > 0
        if len(history.steps) == 3:
            raise KeyboardInterrupt

    path = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        training.train(spec, tensors, checkpoint=path, watch=stop)
    assert numbers(training.train(spec, tensors, checkpoint=path)) == numbers(whole)


def test_both_gates_start_from_the_same_weights_and_batches(tensors) -> None:
    """Else a difference of scores would not be one of the gates."""
    networks, batches = [], []
    for gates in GATES:
        spec = RecurrentSpec(gates=gates, **TINY)
        torch.manual_seed(0)
        networks.append(training.Network(spec))
        batches.append(next(training._batches(spec, tensors, torch.Generator().manual_seed(1))))
    for pair in (*zip(*(n.parameters() for n in networks), strict=True), *zip(*batches, strict=True)):
        assert torch.equal(*pair)


def test_a_specification_comes_back_from_its_json() -> None:
    spec = RecurrentSpec(task="adding", layer="GRU", gates="exact", seed=3)
    assert load_spec(spec.to_json()) == spec and spec.to_json()["kind"] == "rnn"
    digits, mnist = (RecurrentSpec(task="adding", data=each) for each in ("digits", "mnist"))
    assert digits == mnist, "its data is drawn from the seed"
    with pytest.raises(UserError, match="unknown layer 'RNN': known are LSTM, GRU"):
        RecurrentSpec(layer="RNN")
    with pytest.raises(UserError, match="unknown kind of run 'cnn': known are rnn"):
        load_spec({"kind": "cnn"})


def test_bench_rows() -> None:
    rows = bench.run_layers((1,), (8,), threads=1, rounds=2)
    assert [row.contender for row in rows[:3]] == ["torch.nn", "isru", "exact"]
    assert {(row.layer, row.what) for row in rows} == {(a, b) for a in bench.OURS for b in ("inference", "training")}
    assert all(row.seconds > 0 for row in rows)


@pytest.mark.slow
def test_the_grid_trains_stores_and_does_not_repeat(tmp_path) -> None:
    """Through the engine, the store and back into the tables."""
    members = [Row(dataclasses.replace(row.spec, **{**TINY, "steps": 2})) for row in experiment.rows(full=False)]
    found = Study(members, [0], {}, "digits", "digits", full=False)
    engine = make_engine("local", "digits", tmp_path / "checkpoints")
    with RunStore(OutputFolder(tmp_path)) as store:
        told: list[object] = []
        runs = run_grid(found.specs(), store, engine, told.append)
        assert len(runs) == 8 and {run.status for run in runs.values()} == {"done"}
        told.clear()
        assert run_grid(found.specs(), store, engine, told.append) == runs and not told
    results_command.show(tmp_path, tmp_path / "runs.json")
    written = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert {load_spec(each["spec"]).hash for each in written} == set(runs)
    table = experiment._learning_table(dataclasses.replace(found, runs=runs), "rows")
    assert [row[:2] for row in table.rows][:2] == [["LSTM", "ISRU"], ["LSTM", "sigmoid and tanh"]]
    assert all(0 <= row[2] <= 100 and row[-1] == 1 for row in table.rows)
    empty = experiment._learning_table(found, "adding")
    assert [row[2:] for row in empty.rows] == [[None, None, None, 0]] * 4, (
        "a shard without a row's runs leaves it empty"
    )


@pytest.mark.parametrize(
    ("task", "scores", "steps"),
    [
        ("rows", [[97.0, 98.5, 97.0], [98.0, 99.0, 99.0]], 15.0),
        ("adding", [[0.1, 0.1, 0.01], [0.1, 0.01, 0.1]], 25.0),
        ("adding", [[0.1, 0.1, 0.1], [0.1, 0.01, 0.1]], None),
    ],
)
def test_steps_to_the_goal(task, scores, steps) -> None:
    row = Row(RecurrentSpec(task=task))
    specs = [dataclasses.replace(row.spec, seed=seed) for seed in range(2)]
    results = [{"history": {"steps": [10, 20, 30], "score": each}} for each in scores]
    runs = {spec.hash: Run(spec, "done", result=result) for spec, result in zip(specs, results, strict=True)}
    found = Study([row], [0, 1], runs, "mnist", "MNIST", full=True)
    assert experiment._steps_to_goal(found, row) == steps


@pytest.mark.parametrize(
    ("gap", "spread", "seeds", "solved", "verdict"),
    [
        (0.1, 0.05, 5, True, "holds"),
        (0.1, 0.5, 5, True, "undecided"),
        (0.1, 0.05, 1, True, "undecided"),
        (0.6, 0.05, 5, True, "does not"),
        (0.1, 0.05, 5, False, "does not"),
    ],
)
def test_isru_may_lie_behind_by_no_more_than_the_margin(gap, spread, seeds, solved, verdict) -> None:
    def score(spec: RecurrentSpec) -> float:
        if spec.task == "adding":
            return 0.001 if solved or spec.gates == "exact" else 0.1
        return 98.5 if spec.gates == "exact" else 98.5 - gap + spread * (spec.seed % 2 - 0.5)

    found = Study(experiment.rows(True), list(range(seeds)), {}, "mnist", "MNIST", full=True)
    runs = {spec.hash: Run(spec, "done", result={"final_score": score(spec)}) for spec in found.specs()}  # type: ignore[arg-type]
    found = dataclasses.replace(found, runs=runs)
    assert experiment._quality(found).verdict == verdict
    assert [len(table.rows) for table in experiment._differences_table(found)] == ([4] if seeds > 1 else [])
    spec = found.specs()[0]
    lame = dataclasses.replace(found, runs={**runs, spec.hash: Run(spec, "diverged", "the training loss is nan")})
    assert experiment._quality(lame).verdict == "not run"


def test_is_registered_and_knows_when_it_is_outdated() -> None:
    (entry,) = registry.select(["rnn"])
    assert registry.load(entry) is experiment.run
    context = type("Asked", (), {"full": True, "options": {"data": "digits"}})()

    def stored(seeds: int, rows: list[Row], identity: str) -> dict[str, Any]:
        runs = Study(rows, list(range(seeds)), {}, identity, "", full=True).environment["runs"]
        return {"runs": {**runs, "complete": True}}

    rows = experiment.rows(True)
    assert experiment.is_current(stored(5, rows, "digits"), context)
    assert experiment.is_current(stored(6, rows, "digits"), context)
    assert not experiment.is_current(stored(4, rows, "digits"), context)
    assert not experiment.is_current(stored(5, rows[1:], "digits"), context), "the rows are others now"
    assert not experiment.is_current(stored(5, rows, "mnist"), context), "the data is another now"

"""The recurrent experiment: its tasks, its training, its tables, and that a killed run goes on where it was."""

import dataclasses

import numpy as np
import pytest
import torch

from isrlu import data
from isrlu.bench import rnn as bench
from isrlu.paper import registry, rnn, rnn_learning

TINY = {"hidden": 8, "steps": 4, "interval": 2, "batch": 10}


def tiny(name: str) -> rnn_learning.Task:
    rows, adding = rnn_learning.tasks(full=False)
    return dataclasses.replace(rows if name == "rows" else adding, **TINY)


def test_adding_problem() -> None:
    """One mark in each half, and the target is the sum of the marked numbers."""
    x, target = next(rnn_learning._sums(tiny("adding"), 50, seed=3))
    assert x.shape == (200, 50, 2) and target.shape == (50, 1)
    numbers, marks = x.unbind(2)
    assert (marks[:100].sum(0) == 1).all() and (marks[100:].sum(0) == 1).all()
    torch.testing.assert_close((numbers * marks).sum(0), target[:, 0])


def test_rows_are_the_images_rows() -> None:
    images = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    x, labels = rnn_learning._mnist(images, np.array([3, 4], np.uint8))
    assert x.shape == (28, 2, 28) and labels.tolist() == [3, 4]
    np.testing.assert_allclose(x[5, 1].numpy() * 255, images[1, 5], rtol=1e-6)


@pytest.mark.parametrize("layer", rnn_learning.LAYERS)
@pytest.mark.parametrize("gates", rnn_learning.GATES)
@pytest.mark.parametrize("name", ["rows", "adding"])
def test_training_is_repeatable_and_learns(layer, gates, name) -> None:
    images = data.digits() if name == "rows" else None
    task = tiny(name)
    first, again = (rnn_learning.train(task, layer, gates, 0, images) for _ in range(2))
    assert first == again
    assert first["steps"] == [2, 4] and len(first["score"]) == len(first["loss"]) == 2
    assert rnn_learning.train(task, layer, gates, 1, images) != first
    longer = rnn_learning.train(dataclasses.replace(task, steps=60, interval=20), layer, gates, 0, images)
    assert longer["loss"][-1] < longer["loss"][0]


def test_both_gates_start_from_the_same_weights_and_batches() -> None:
    """Else a difference of scores would not be one of the gates."""
    networks = []
    for gates in rnn_learning.GATES:
        torch.manual_seed(0)
        networks.append(rnn_learning.Network(tiny("rows"), "LSTM", gates))
    for a, b in zip(*(n.parameters() for n in networks), strict=True):
        assert torch.equal(a, b)


def test_bench_rows() -> None:
    rows = bench.run_layers((1,), (8,), threads=1, rounds=2)
    assert [row.contender for row in rows[:3]] == ["torch.nn", "isru", "exact"]
    assert {(row.layer, row.what) for row in rows} == {(a, b) for a in bench.OURS for b in ("inference", "training")}
    assert all(row.seconds > 0 and row.tokens_per_second == row.batch / row.seconds for row in rows)


def test_interrupted_runs_are_remembered(monkeypatch) -> None:
    """A second attempt trains only what the first did not finish."""
    tasks = tiny("rows"), tiny("adding")
    monkeypatch.setattr(rnn_learning, "tasks", lambda full: tasks)
    context = _Context(fail_after=3)
    with pytest.raises(KeyboardInterrupt):
        rnn._train(context, data.digits(), [0])
    context.fail_after = 100
    runs = rnn._train(context, data.digits(), [0])
    assert context.computed == 8 and len(runs) == 8
    table = rnn._learning_table(runs, "rows")
    assert [row[:2] for row in table.rows][:2] == [["LSTM", "ISRU"], ["LSTM", "sigmoid and tanh"]]


class _Context:
    """What `_train` asks of a context, with an interruption on order."""

    full = False

    def __init__(self, fail_after: int) -> None:
        self.fail_after, self.computed, self.kept = fail_after, 0, {}

    def progress(self, *_: object) -> None: ...

    def remember(self, key, compute):
        if key not in self.kept:
            if self.computed == self.fail_after:
                raise KeyboardInterrupt
            self.kept[key] = compute()
            self.computed += 1
        return self.kept[key]


def test_is_registered_and_knows_when_it_is_outdated() -> None:
    (entry,) = registry.select(["rnn"])
    assert registry.load(entry) is rnn.run
    context = type("Asked", (), {"full": True, "options": {}})()
    assert not rnn.is_current({"rnn": {"seeds": 1}}, context)
    assert rnn.is_current({"rnn": {"seeds": 5}}, context)

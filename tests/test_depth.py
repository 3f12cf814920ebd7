"""Deep networks: initialisation by theory, training, and the experiment's choice of rates and verdicts."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from isrlu_lab import data
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import depth as experiment
from isrlu_lab.experiments.study import Study
from isrlu_lab.training.depth import train_depth
from isrlu_lab.training.depth.deep_networks import build, layer_signal
from isrlu_lab.training.depth.depth_spec import ACTIVATIONS, DepthSpec
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.kinds import load_spec
from isrlu_lab.training.run_store import Run

TINY: dict[str, Any] = {"depth": 3, "width": 8, "epochs": 2, "batch": 100, "data": "digits"}


@pytest.fixture(scope="module")
def tensors() -> ImageTensors:
    return ImageTensors(data.digits())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_initial_weights_keep_the_second_moment(activation: str) -> None:
    """By theory, standard normal inputs have outputs whose second moment stays near 1 times f's at each layer."""
    generator = torch.Generator().manual_seed(0)
    x, labels = torch.randn(256, 512, generator=generator), torch.arange(256) % 10
    found = layer_signal(build(activation, 8, 512, inputs=512, seed=1), x, labels)
    mean, variance, gradient = map(np.array, found)
    moments = variance + mean**2
    assert len(mean) == len(gradient) == 8 and (gradient > 0).all()
    np.testing.assert_allclose(moments, moments[0], rtol=0.25)
    if activation in ("selu", "sisrlu", "centred"):
        np.testing.assert_allclose(variance, 1.0, atol=0.2)
        np.testing.assert_allclose(mean, 0.0, atol=0.1)


def test_all_activations_start_from_the_same_numbers() -> None:
    relu, sisrlu = (build(name, 2, 16, inputs=16, seed=3) for name in ("relu", "sisrlu"))
    torch.testing.assert_close(relu[0].weight, sisrlu[0].weight * 2**0.5)
    assert torch.equal(relu[-1].weight, sisrlu[-1].weight)


def test_an_interrupted_run_ends_with_the_same_bits(tensors: ImageTensors, tmp_path: Path) -> None:
    spec = DepthSpec(**TINY)
    whole = train_depth.train(spec, tensors)
    assert len(whole.loss) == len(whole.accuracy) == 2 and [len(each) for each in whole.final] == [3, 3, 3]

    def stop(history: train_depth.History, rate: float) -> None:
        if len(history.loss) == 2:
            raise KeyboardInterrupt

    path = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        train_depth.train(spec, tensors, checkpoint=path, watch=stop)
    again = train_depth.train(spec, tensors, checkpoint=path)
    assert dataclasses.asdict(again) | {"seconds": 0} == dataclasses.asdict(whole) | {"seconds": 0}
    assert train_depth.train(dataclasses.replace(spec, seed=1), tensors).loss != whole.loss


def test_held_out_images_are_not_trained_on(tensors: ImageTensors) -> None:
    spec = DepthSpec(**{**TINY, "held_out": 500})
    (x, labels), (test_x, test_labels) = train_depth._split(spec, tensors)
    assert len(x) == len(labels) == 1000 and len(test_x) == 500
    assert torch.equal(test_labels, tensors.train[1][1000:])
    assert x.mean().abs() < 1e-5 and (x.var() - 1).abs() < 1e-3
    with pytest.raises(UserError, match="cannot hold out 1500 of 1500 training images"):
        train_depth.train(dataclasses.replace(spec, held_out=1500), tensors)


def test_specification() -> None:
    spec = DepthSpec(activation="centred", depth=64, held_out=100)
    assert load_spec(spec.to_json()) == spec
    with pytest.raises(UserError, match="unknown activation 'gelu': known are relu, elu, selu"):
        DepthSpec(activation="gelu")
    with pytest.raises(UserError, match="depth must be at least 1, got 0"):
        DepthSpec(depth=0)


def made_study(accuracy: dict[tuple[str, int], float]) -> Study:
    """Five seeds of every row, with accuracies near the given ones."""
    rates = {f"{row.spec.activation} {row.spec.depth}": 0.01 for row in experiment.tuning_rows(True)}
    study = Study(experiment.rows(True, rates), list(range(5)), {}, "mnist", "MNIST", True)
    noise = np.random.default_rng(1).normal(0, 0.05, 5)
    runs = {}
    for spec in study.specs():
        assert isinstance(spec, DepthSpec)
        value = accuracy.get((spec.activation, spec.depth), 97.0) + noise[spec.seed] * (1 + len(spec.activation) / 10)
        runs[spec.hash] = Run(spec, "done", "", {"final_accuracy": value})
    return dataclasses.replace(study, runs=runs)


@pytest.mark.parametrize(
    ("accuracy", "verdicts"),
    [
        ({("relu", 32): 90.0, ("relu", 64): 80.0}, ["holds", "holds", "holds"]),
        ({("elu", 64): 99.0, ("selu", 64): 99.0}, ["does not", "does not", "does not"]),
        ({("relu", 32): 90.0, ("relu", 64): 90.0, ("relu", 8): 80.0}, ["does not", "holds", "holds"]),
    ],
)
def test_verdicts(accuracy: dict[tuple[str, int], float], verdicts: list[str]) -> None:
    assert [each.verdict for each in experiment._claims(made_study(accuracy))] == verdicts


def test_a_stored_result_is_current_only_with_its_own_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    monkeypatch.setattr(experiment.study, "is_current", lambda *a, **k: called.append(k["rows"](True)) or True)
    context: Any = type("Context", (), {"full": True, "options": {}})()
    rates = {f"{row.spec.activation} {row.spec.depth}": 0.03 for row in experiment.tuning_rows(True)}
    assert experiment.is_current({"rates": rates}, context)
    assert {row.spec.rate for row in called[0]} == {0.03}
    assert not experiment.is_current({"rates": {**rates, "relu 8": 7.0}}, context), "a rate that the list lacks"
    assert not experiment.is_current({}, context)


@pytest.mark.slow
def test_the_quick_preset_from_the_command_to_the_report(tmp_path: Path) -> None:
    """Choice of the rates, training, the store and back, tables and figures; then again from the store alone."""
    from isrlu_lab.reproduce import reproduce

    options = {"data": "digits", "seeds": 2}
    quiet: Any = Console(file=io.StringIO())
    for stored in (False, True):
        done = reproduce(
            ["depth"],
            tmp_path,
            full=False,
            again=False,
            console=quiet,
            errors=quiet,
            options={**options, "stored": stored},
        )
        assert done == 0, quiet.file.getvalue()
        found = json.loads((tmp_path / "depth-quick" / "result.json").read_text())["result"]
        assert len(found["tables"][0]["rows"]) == len(ACTIVATIONS) and len(found["figures"]) == 9
        assert {each["verdict"] for each in found["claims"]} == {"not run"}

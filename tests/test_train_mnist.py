"""One run: its specification, the schedule, checkpoints that go on to the same bits, divergence, the command."""

import dataclasses
import json
import math
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from mnist_program import small_data

from isrlu_lab.cli import main
from isrlu_lab.errors import UserError
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.mnist import train_mnist as training
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.mnist.train_mnist import History, train
from isrlu_lab.training.worker import Diverged, checkpoint_path, execute

SMALL = MnistSpec(activation="relu", width=16, epochs=3, batch=50, data="small")
FILES = Path(__file__).parent


@pytest.fixture(scope="module")
def tensors() -> ImageTensors:
    torch.set_num_threads(1)
    return ImageTensors(small_data())


def same(first: History, second: History) -> bool:
    """Equal to the last bit, but for the time it took."""
    return dataclasses.replace(first, seconds=0.0) == dataclasses.replace(second, seconds=0.0)


# The specification


def test_a_specification_is_its_hash() -> None:
    assert MnistSpec().hash == MnistSpec().hash and len(MnistSpec().hash) == 16
    assert MnistSpec.from_json(MnistSpec(alpha=3.0, seed=7).to_json()) == MnistSpec(alpha=3.0, seed=7)
    changed = [dataclasses.replace(SMALL, **{name: value}).hash for name, value in CHANGES.items()]
    assert len({SMALL.hash, *changed}) == len(CHANGES) + 1, "two different runs share a hash"


CHANGES = {
    "activation": "elu",
    "width": 17,
    "pkeep": 0.5,
    "epochs": 4,
    "steps": 2,
    "evaluations": 2,
    "batch": 10,
    "seed": 1,
    "data": "mnist",
}


def test_every_field_is_in_the_hash() -> None:
    special = {
        "architecture",
        "alpha",
        "learnable",
        "method",
        "pkeep_conv",
    }  # not all activations and networks have them
    assert {each.name for each in dataclasses.fields(MnistSpec)} == set(CHANGES) | special
    hashes = {
        MnistSpec().hash,
        MnistSpec(alpha=2).hash,
        MnistSpec(learnable=True).hash,
        MnistSpec(method="approx").hash,
    }
    hashes |= {MnistSpec(architecture=2).hash, MnistSpec(architecture=2, pkeep_conv=0.7).hash}
    assert len(hashes) == 6


def test_relu_has_no_alpha_to_differ_in() -> None:
    assert MnistSpec(activation="relu", alpha=1.0) == MnistSpec(activation="relu", alpha=3.0)


def test_unknown_keys_are_errors() -> None:
    with pytest.raises(UserError, match="unknown key momentum in a run's specification"):
        MnistSpec.from_json({**MnistSpec().to_json(), "momentum": 0.9})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "swish"}, "unknown activation 'swish'"),
        ({"architecture": 3}, "unknown architecture 3"),
        ({"method": "fast"}, "unknown method 'fast'"),
        ({"activation": "elu", "method": "approx"}, "elu has no method approx"),
        ({"activation": "relu", "learnable": True}, "relu has no learnable alpha"),
        ({"alpha": -1.0}, "alpha must be a finite number >= 0"),
        ({"pkeep": 0.0}, r"pkeep is the probability of keeping a unit, in \(0, 1\], got 0.0"),
        ({"pkeep": math.nan}, "pkeep is the probability"),
        ({"architecture": 2, "pkeep_conv": 2.0}, "pkeep_conv is the probability"),
        ({"pkeep_conv": 0.7}, "architecture 1 has no dropout after convolutions"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_mistakes_in_a_specification(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        MnistSpec(**options)


# Training


def test_the_schedule_is_the_papers() -> None:
    assert training.learning_rate(0) == pytest.approx(0.0031)
    assert training.learning_rate(2000) == pytest.approx(0.0001 + 0.003 / math.e)
    assert training.learning_rate(10**6) == pytest.approx(0.0001)


def test_it_learns(tensors: ImageTensors) -> None:
    history = train(dataclasses.replace(SMALL, epochs=30, pkeep=1.0), tensors)
    assert history.test_accuracy[-1] > 90.0 > history.test_accuracy[0]
    assert history.train_loss[-1] < 0.2 < history.train_loss[0]


def test_what_is_noted(tensors: ImageTensors) -> None:
    seen: list[int] = []
    spec = dataclasses.replace(SMALL, evaluations=3)
    history = train(spec, tensors, watch=lambda history, rate: seen.append(history.train_steps[-1]))
    assert history.steps_per_epoch == 3
    assert history.test_steps == seen == list(range(1, 10))
    assert history.unit_epochs == [0, 1, 2, 3]
    assert [len(layers) for layers in history.unit_mean + history.unit_median] == [4] * 8
    assert all(value >= 0.0 for layers in history.unit_mean for value in layers), "ReLU has no negative outputs"
    assert history.alphas == []
    numbers = training.summary(history)
    assert numbers["best_accuracy"] == max(history.test_accuracy)
    assert numbers["final_loss"] == 100 * history.test_loss[-1]


def test_progress_between_the_looks(tensors: ImageTensors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "LOSS_EVERY", 1)
    seen: list[tuple[float, str]] = []
    spec = dataclasses.replace(SMALL, epochs=2)
    train(spec, tensors, watch=lambda history, rate: seen.append(training.progress(spec, history, rate)[::2]))
    assert [share for share, _ in seen] == pytest.approx([step / 6 for step in range(1, 7)])
    assert [text.partition(",")[0] for _, text in seen[1:4]] == ["epoch 0.67/2", "epoch 1/2", "epoch 1.33/2"]
    assert "test" not in seen[1][1] and seen[2][1].endswith("%"), "the first look is at the first epoch's end"


def test_mean_activation_is_that_of_the_units(tensors: ImageTensors) -> None:
    run = training._Run(SMALL, tensors, training.Ranks())
    run.track()
    first = run.network[1](run.network[0](tensors.test[0])).double().mean(0).flatten()
    assert run.history.unit_mean[0][0] == pytest.approx(first.mean().item())
    assert run.history.unit_median[0][0] == pytest.approx(first.quantile(0.5).item())


def test_steps_end_a_run_early(tensors: ImageTensors) -> None:
    shares: list[float] = []
    spec = dataclasses.replace(SMALL, steps=4)
    history = train(spec, tensors, watch=lambda history, rate: shares.append(training.progress(spec, history, rate)[0]))
    assert history.test_steps == [3, 4]
    assert shares == [0.75, 1.0]


def test_learned_alphas_are_noted(tensors: ImageTensors) -> None:
    spec = dataclasses.replace(SMALL, activation="isrlu", alpha=3.0, learnable=True, pkeep=1.0, epochs=10)
    history = train(spec, tensors)
    assert history.alphas[0] == pytest.approx([3.0] * 4) and len(history.alphas) == 11
    assert all(abs(end - 3.0) > 1e-3 for end in history.alphas[-1])


def test_seeds_differ_and_repeat(tensors: ImageTensors) -> None:
    first, again, other = (train(dataclasses.replace(SMALL, seed=seed), tensors) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop_at", [1, 2, 5])
@pytest.mark.parametrize("activation", ["relu", "isrlu"])
def test_an_interrupted_run_goes_on_to_the_same_bits(
    tmp_path: Path, tensors: ImageTensors, stop_at: int, activation: str
) -> None:
    spec = dataclasses.replace(SMALL, activation=activation, evaluations=2)
    path = tmp_path / "run.pt"

    def stop(history: History, rate: float) -> None:
        if len(history.test_steps) == stop_at:
            raise Stop

    with pytest.raises(Stop):
        train(spec, tensors, checkpoint=path, watch=stop)
    assert path.exists() == (stop_at > 2), "a checkpoint is written at an epoch's end"
    torch.manual_seed(123)  # whatever happened to the global generator in between
    seen: list[int] = []
    resumed = train(spec, tensors, checkpoint=path, watch=lambda history, rate: seen.append(history.test_steps[-1]))
    whole_epochs = 2 * ((stop_at - 1) // 2)  # evaluations that the checkpoint holds
    assert seen == resumed.test_steps[whole_epochs:], "what the checkpoint holds is not trained again"
    assert same(resumed, train(spec, tensors))
    assert same(resumed, train(spec, tensors, checkpoint=path)), "a finished run is not trained further"


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, tensors: ImageTensors) -> None:
    train(SMALL, tensors, checkpoint=tmp_path / "run.pt")
    with pytest.raises(UserError, match="is the checkpoint of another run"):
        train(dataclasses.replace(SMALL, seed=1), tensors, checkpoint=tmp_path / "run.pt")


def test_a_damaged_checkpoint_is_named(tmp_path: Path, tensors: ImageTensors) -> None:
    path = tmp_path / "run.pt"
    train(SMALL, tensors, checkpoint=path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"run\.pt is damaged .*: delete it to start this run again"):
        train(SMALL, tensors, checkpoint=path)
    with pytest.raises(UserError, match=r"cannot read the checkpoint .*: Is a directory"):
        train(SMALL, tensors, checkpoint=tmp_path)


def test_a_run_of_a_grid_with_a_damaged_checkpoint_starts_anew(tmp_path: Path, tensors: ImageTensors) -> None:
    checkpoint_path(tmp_path, SMALL).write_bytes(b"half of a state")
    run = execute(SMALL, tensors, tmp_path)
    expected = dataclasses.asdict(dataclasses.replace(train(SMALL, tensors), seconds=0.0))
    assert run.status == "done" and {**run.result["history"], "seconds": 0.0} == expected


@pytest.mark.slow
def test_only_the_command_is_one_of_several_processes(tensors: ImageTensors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")  # a scheduler may have left it
    assert train(SMALL, tensors).test_accuracy
    for count, message in (("2", "is 2, but torchrun did not start this: "), ("x", "is 'x', but a number")):
        done = isrlu(*TRAIN, env={**os.environ, "WORLD_SIZE": count})
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2 and line.startswith(f"isrlu: WORLD_SIZE {message}")


def test_other_data_is_refused(tensors: ImageTensors) -> None:
    with pytest.raises(UserError, match="specified for data 'mnist', but 'small' was given"):
        train(dataclasses.replace(SMALL, data="mnist"), tensors)


def test_divergence_is_told_with_its_step(tensors: ImageTensors) -> None:
    with pytest.raises(Diverged, match=r"is (nan|-?inf) at step") as caught:
        train(dataclasses.replace(SMALL, activation="elu", alpha=1e38), tensors)
    assert caught.value.history.unit_epochs == [] and caught.value.history.train_loss == []
    with pytest.raises(Diverged, match="the alpha is inf at step 0") as caught:
        train(dataclasses.replace(SMALL, activation="isrlu", alpha=1e39, learnable=True), tensors)
    assert caught.value.history.alphas == []


# The command


def isrlu(
    *arguments: str, program: tuple[str, ...] = (sys.executable, "-m", "isrlu"), **options
) -> subprocess.CompletedProcess:
    return subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=300, check=False, **options)


TRAIN = ("train", "--data", "digits", "--activation", "relu", "--width", "16", "--epochs", "2", "--threads", "1")


@pytest.mark.slow
def test_command_writes_the_result(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board, result = tmp_path / "board", tmp_path / "run.json"
    terminal = {**os.environ, "FORCE_COLOR": "1"}
    options = ("--json", str(result), "--evaluations", "3", "--tensorboard", str(board))
    done = isrlu(*TRAIN, *options, env=terminal)
    assert done.returncode == 0, done.stderr
    assert "starts" in done.stdout, "the live line"
    assert "epoch 2/2, loss" in done.stdout and "images/s" in done.stdout and "not MNIST" in done.stdout
    record = json.loads(result.read_text())
    assert record["status"] == "done" and record["environment"]["threads"] == 1
    assert "not MNIST" in record["data"]
    found = EventAccumulator(str(board)).Reload()
    per_epoch = record["history"]["steps_per_epoch"]
    assert [event.step for event in found.Scalars("mean activation/layer 4")] == [per_epoch, 2 * per_epoch]
    assert [event.step for event in found.Scalars("accuracy/test")] == record["history"]["test_steps"]
    assert len(record["history"]["test_steps"]) == 6


@pytest.mark.slow
def test_the_result_on_standard_output_is_json_alone(tmp_path: Path) -> None:
    done = isrlu(*TRAIN, "--steps", "3", "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "done" and "highest test accuracy" in done.stderr
    assert not list(tmp_path.iterdir()), 'no file called "-"'


@pytest.mark.slow
def test_command_without_a_terminal_prints_a_line_at_each_look() -> None:
    done = isrlu(*TRAIN, "--epochs", "1", "--batch", "10")  # more steps than lie between two points of the loss
    assert done.returncode == 0, done.stderr
    assert [line.partition(",")[0] for line in done.stdout.splitlines() if line.startswith("epoch")] == ["epoch 1/1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pkeep", "0"), "isrlu: pkeep is the probability of keeping a unit, in (0, 1], got 0.0"),
        (("--activation", "swish"), "isrlu: unknown activation 'swish': known are isrlu, elu, relu"),
        (("--data", "/no/such/folder"), "isrlu: no such data folder: /no/such/folder"),
        (("--checkpoint", "/"), "isrlu: cannot write /: Is a directory: give another place with --checkpoint"),
        (
            ("--tensorboard", "/dev/null"),
            "isrlu: cannot write /dev/null/events: File exists: give another place with --tensorboard",
        ),
    ],
)
def test_command_tells_mistakes_in_one_line(
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["isrlu", "train", *arguments])
    with pytest.raises(SystemExit) as exit_code:
        main()
    assert exit_code.value.code == 2
    assert capsys.readouterr().err.strip() == message


@pytest.mark.slow
def test_command_tells_divergence(tmp_path: Path) -> None:
    done = isrlu(*TRAIN, "--activation", "elu", "--alpha", "1e38", "--json", str(tmp_path / "run.json"))
    assert done.returncode == 1
    assert done.stderr.startswith("isrlu: the run diverged: the ")
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "diverged"


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_loses_no_epoch(tmp_path: Path) -> None:
    """The disk is full for every file of more than 10 kB: less than a checkpoint."""
    limit = (10_000, 10_000)
    path = tmp_path / "run.pt"
    full = isrlu(*TRAIN, "--checkpoint", str(path), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert full.returncode == 2
    assert full.stderr.startswith(f"isrlu: cannot write the checkpoint {path}") and full.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir()), "no half-written file stays behind"
    assert isrlu(*TRAIN, "--checkpoint", str(path)).returncode == 0


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.slow
def test_torchrun_shares_the_batches(tmp_path: Path) -> None:
    """Two processes of half a batch each are one of a whole batch: the same images, and the same first gradient.

    Not compared is what comes later: training makes the rounding of the first step as large as one likes.
    """
    for name, program in (("one", (sys.executable,)), ("two", TORCHRUN)):
        (tmp_path / name).mkdir()
        done = isrlu(str(FILES / "torchrun_program.py"), str(tmp_path / name), program=program)
        assert done.returncode == 0, done.stderr
    alone, first, second = (torch.load(tmp_path / name) for name in ("one/0.pt", "two/0.pt", "two/1.pt"))
    assert len(alone["shares"]) == len(first["shares"]) == len(second["shares"]) == 3
    for whole, even, odd in zip(alone["shares"], first["shares"], second["shares"], strict=True):
        assert torch.equal(whole[0::2], even) and torch.equal(whole[1::2], odd)
    for whole, even, odd in zip(alone["gradient"], first["gradient"], second["gradient"], strict=True):
        assert torch.equal(even, odd), "the ranks have agreed on a gradient"
        assert (even - whole).abs().max() < 1e-12 * whole.abs().max()  # of sums over 25 and 50 images, in float64


@pytest.mark.slow
def test_the_command_under_torchrun(tmp_path: Path) -> None:
    for name, program in (("one", (sys.executable,)), ("two", TORCHRUN)):
        options = ("--pkeep", "1", "--steps", "1", "--json", str(tmp_path / f"{name}.json"))
        done = isrlu("-m", "isrlu", *TRAIN, *options, program=program)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("highest test accuracy") == 1, "one process talks"
    one, two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two"))
    assert (one["environment"]["processes"], two["environment"]["processes"]) == (1, 2)
    (alone,), (shared,) = one["history"]["train_loss"], two["history"]["train_loss"]
    assert shared == pytest.approx(alone, rel=1e-5)  # the loss of the first batch, a mean of 100 float32

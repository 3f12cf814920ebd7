"""`isrlu train`: one run with a progress line."""

import contextlib
import dataclasses
import importlib
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from isrlu._missing import install_package
from isrlu_lab import data as datasets
from isrlu_lab import environment
from isrlu_lab.atomic_files import try_to_write, write_json
from isrlu_lab.errors import UserError
from isrlu_lab.training.mnist.mnist_spec import MnistSpec


def train_one(
    options: Mapping[str, Any],
    *,
    threads: int,
    data: str | None,
    checkpoint: Path | None,
    output: Path | None,
    tensorboard: Path | None,
) -> int:
    """Train the run that `options` specify; returns the exit code, 1 if it diverged."""
    from isrlu_lab.training.image_tensors import ImageTensors
    from isrlu_lab.training.mnist import distributed
    from isrlu_lab.training.mnist.train_mnist import History, progress, summary, train
    from isrlu_lab.training.worker import Diverged, keep_memory

    MnistSpec.from_json(options)  # reports a mistake before any data is downloaded
    events = tensorboard / "events" if tensorboard else None
    for path, option in ((output, "--json"), (checkpoint, "--checkpoint"), (events, "--tensorboard")):
        if path:
            try_to_write(path, option)
    source, reason = datasets.find_or_digits(data)
    loaded = datasets.load(source)
    spec = MnistSpec.from_json({**options, "data": loaded.identity})
    ranks = distributed.Ranks.from_environment()
    used = distributed.threads(threads)
    keep_memory()
    text = sys.stderr if str(output) == "-" else sys.stdout  # standard output is then the JSON alone
    if ranks.first:
        if reason:
            print(f"isrlu: {reason}; trains on scikit-learn's digits instead", file=sys.stderr)
        run = f"{spec.label}, seed {spec.seed}, run {spec.hash}"
        print(f"{run}, {loaded.title}, {ranks.count} x {used} threads", file=text)
    board = _board(tensorboard if ranks.first else None)

    console = Console(file=text, quiet=not ranks.first, highlight=False, soft_wrap=True)
    live = console.status("starts", refresh_per_second=2)  # only on a terminal

    def watch(history: History, rate: float) -> None:
        line = f"{progress(spec, history, rate)[2]}, {rate:,.0f} images/s"
        live.update(line)
        if history.train_steps[-1:] == history.test_steps[-1:]:
            console.print(line)
            board(history)

    status = {"status": "done", "reason": ""}
    try:
        with live:
            history = train(spec, ImageTensors(loaded), checkpoint=checkpoint, watch=watch, ranks=ranks)
        numbers = summary(history)
    except Diverged as error:
        history, numbers, status = error.history, {}, {"status": "diverged", "reason": str(error)}
    finally:
        distributed.finish()
    if ranks.first:
        captured = {**environment.capture(), "threads": used, "processes": ranks.count}
        if numbers:
            best, loss = numbers["best_accuracy"], numbers["final_loss"]
            reached = f"highest test accuracy {best:.2f} %, final loss x 100 {loss:.3f}, {numbers['seconds']:.0f} s"
            print(reached, file=text)
        else:
            print(f"isrlu: the run diverged: {status['reason']}", file=sys.stderr)
        if output:
            record = {"spec": spec.to_json(), **status, **numbers, "history": dataclasses.asdict(history)}
            write_json(output, {**record, "data": loaded.title, "environment": captured}, "--json")
    return 0 if numbers else 1


def _board(folder: Path | None) -> Callable[[Any], None]:
    """A function that writes the last point of a history to TensorBoard, or does nothing without a folder."""
    if folder is None:
        return lambda _: None
    # TensorBoard loads TensorFlow where it is installed. Triton, which PyTorch's compiler imports where that is
    # installed, has to come first: the other order ends the process.
    with contextlib.suppress(ImportError):
        importlib.import_module("triton")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(f"--tensorboard needs the package tensorboard: {install_package('tensorboard')}") from None
    writer = SummaryWriter(str(folder))

    def write(history: Any) -> None:
        step = history.test_steps[-1]
        writer.add_scalar("loss/train", history.train_loss[-1], step)
        writer.add_scalar("loss/test", history.test_loss[-1], step)
        writer.add_scalar("accuracy/test", history.test_accuracy[-1], step)
        if math.ceil(step / history.steps_per_epoch) == history.unit_epochs[-1]:  # at an epoch's end: tracked there
            for layer, (mean, median) in enumerate(zip(history.unit_mean[-1], history.unit_median[-1], strict=True), 1):
                writer.add_scalar(f"mean activation/layer {layer}", mean, step)
                writer.add_scalar(f"median activation/layer {layer}", median, step)
        writer.flush()

    return write

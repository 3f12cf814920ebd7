"""One training run on CIFAR-10: SGD with momentum 0.9 and weight decay 0.0005, the rate falling to 0 along a cosine.

Images are standardised by the colours' means and deviations of the training set and mirrored at random. All random
numbers of an epoch come from (seed, epoch), so a run that resumes from a checkpoint ends with the same bits as an
uninterrupted one.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isrlu_lab.errors import UserError
from isrlu_lab.training.checkpoint import load_checkpoint, save_checkpoint
from isrlu_lab.training.cifar.cifar_spec import CifarSpec
from isrlu_lab.training.cifar.network import build
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.worker import Diverged, seed_of

MOMENTUM, DECAY = 0.9, 5e-4
LOSS_EVERY = 50  # steps between two reports of progress
TEST_BATCH = 500  # images


@dataclass
class History:
    """What a run records. Losses are mean cross-entropies, accuracies are in percent."""

    loss: list[float] = field(default_factory=list)  # of training, mean over the epoch
    accuracy: list[float] = field(default_factory=list)  # on the test set after each epoch
    training_seconds: list[float] = field(default_factory=list)  # of each epoch's steps, without the test
    steps: int = 0
    seconds: float = 0.0  # of training and testing, summed over resumed processes


def train(
    spec: CifarSpec,
    tensors: ImageTensors,
    *,
    checkpoint: Path | None = None,
    watch: Callable[[History, int, float, float], None] | None = None,
) -> History:
    """Run `spec` to its end, from its last checkpoint if there is one; raises Diverged."""
    if tensors.identity != spec.data:
        raise UserError(f"the run is specified for data {spec.data!r}, but {tensors.identity!r} was given")
    (images, labels), test = tensors.train, tensors.test
    deviation, mean = torch.std_mean(images, (0, 2, 3), keepdim=True)
    network = build(spec.activation, spec.width, seed=seed_of(spec.seed, 0))
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(network.parameters(), lr=spec.rate, momentum=MOMENTUM, weight_decay=DECAY)
    batch = min(spec.batch, len(labels))
    total = min(spec.epochs * (len(labels) // batch), spec.steps or 1 << 60)
    history, epoch, step = History(), 0, 0
    if checkpoint and checkpoint.exists():
        epoch, step, history = load_checkpoint(checkpoint, spec, network, optimiser, History)
    while step < total:
        epoch += 1
        start = time.perf_counter()
        torch.manual_seed(seed_of(spec.seed, epoch))  # of dropout and mirroring
        shuffle = torch.Generator().manual_seed(seed_of(spec.seed, epoch))
        batches = torch.randperm(len(labels), generator=shuffle).split(batch)[: len(labels) // batch][: total - step]
        losses: list[Tensor] = []
        for number, chosen in enumerate(batches, 1):
            optimiser.param_groups[0]["lr"] = spec.rate * 0.5 * (1 + math.cos(math.pi * step / total))
            losses.append(
                _train_step(network, optimiser, _mirrored((images[chosen] - mean) / deviation), labels[chosen])
            )
            step += 1
            if watch and number % LOSS_EVERY == 0 and number < len(batches):
                watch(history, step, losses[-1].item(), number * batch / (time.perf_counter() - start))
        taken = time.perf_counter() - start
        loss = torch.stack(losses).mean().item()
        if not math.isfinite(loss):
            raise Diverged("training loss", loss, step, history)
        history.loss.append(loss)
        history.training_seconds.append(taken)
        history.accuracy.append(_accuracy(network, (test[0] - mean) / deviation, test[1]))
        history.steps = step
        history.seconds += time.perf_counter() - start
        if watch:
            watch(history, step, loss, len(batches) * batch / taken)
        if checkpoint:
            save_checkpoint(checkpoint, spec, network, optimiser, epoch, step, history)
    return history


def summary(history: History) -> dict[str, Any]:
    """The `numbers` of the result."""
    return {
        "final_accuracy": history.accuracy[-1],
        "best_accuracy": max(history.accuracy),
        "final_loss": history.loss[-1],
        "step_milliseconds": 1e3 * sum(history.training_seconds) / history.steps,
        "seconds": history.seconds,
    }


def progress(spec: CifarSpec, history: History, step: int, loss: float, rate: float) -> tuple[float, float, str]:
    """Share done, rate and text of a `Progress`, from the arguments of `watch`."""
    test = f", test {history.accuracy[-1]:.2f} %" if history.accuracy else ""
    per_epoch = history.steps // len(history.loss) if history.loss else 0
    total = spec.steps or spec.epochs * (per_epoch or 50_000 // spec.batch)
    return min(1.0, step / total), rate, f"step {step}/{total}, loss {loss:.4f}{test}"


def _train_step(network: nn.Sequential, optimiser: torch.optim.Optimizer, x: Tensor, labels: Tensor) -> Tensor:
    optimiser.zero_grad()
    loss = F.cross_entropy(network(x), labels)
    loss.backward()
    optimiser.step()
    return loss.detach()


def _mirrored(images: Tensor) -> Tensor:
    """Each image mirrored left to right with probability 1/2."""
    return torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, images.flip(3), images)


@torch.no_grad()
def _accuracy(network: nn.Sequential, images: Tensor, labels: Tensor) -> float:
    network.eval()
    logits = torch.cat([network(part) for part in images.split(TEST_BATCH)])
    network.train()
    return 100.0 * (logits.argmax(1) == labels).double().mean().item()

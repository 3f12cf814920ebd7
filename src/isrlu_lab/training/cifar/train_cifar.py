"""One training run on CIFAR-10: SGD with momentum 0.9 and weight decay 0.0005, the rate falling to 0 along a cosine.

Images are standardised by the colours' means and deviations of the training set and mirrored at random. All random
numbers of an epoch come from (seed, epoch).
"""

import math
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isrlu_lab.training.checkpoint import Checkpoint
from isrlu_lab.training.cifar.cifar_spec import CifarSpec
from isrlu_lab.training.cifar.network import build
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.segments import Watch, check_data, train_in_segments
from isrlu_lab.training.worker import check_finite, seed_of

MOMENTUM, DECAY = 0.9, 5e-4
REPORT_EVERY = 50  # steps between two reports of progress
TEST_BATCH = 500  # images


@dataclass
class History:
    """What a run records. Losses are mean cross-entropies, accuracies are in percent."""

    loss: list[float] = field(default_factory=list)  # of training, mean over the epoch
    accuracy: list[float] = field(default_factory=list)  # on the test set after each epoch
    training_seconds: list[float] = field(default_factory=list)  # of each epoch's steps, without the test
    steps: int = 0  # so far
    total: int = 0  # steps of the whole run
    seconds: float = 0.0  # of training and testing, summed over resumed processes


def train(
    spec: CifarSpec, tensors: ImageTensors, *, checkpoint: Path | None = None, watch: Watch[History] | None = None
) -> History:
    """Run `spec` to its end, from its last checkpoint if there is one; raises Diverged."""
    check_data(spec, tensors)
    (images, labels), test = tensors.train, tensors.test
    deviation, mean = torch.std_mean(images, (0, 2, 3), keepdim=True)
    network, optimiser = prepare(spec)
    batch = min(spec.batch, len(labels))
    total = min(spec.epochs * (len(labels) // batch), spec.steps or sys.maxsize)

    def epoch(history: History, number: int, step: int) -> int:
        start = time.perf_counter()
        torch.manual_seed(seed_of(spec.seed, number))  # of dropout and mirroring
        shuffle = torch.Generator().manual_seed(seed_of(spec.seed, number))
        batches = torch.randperm(len(labels), generator=shuffle).split(batch)[: len(labels) // batch][: total - step]
        losses: list[Tensor] = []
        for done, chosen in enumerate(batches, 1):
            optimiser.param_groups[0]["lr"] = spec.rate * 0.5 * (1 + math.cos(math.pi * history.steps / total))
            x = _mirrored((images[chosen] - mean) / deviation)
            losses.append(train_step(network, optimiser, x, labels[chosen]))
            history.steps += 1
            if watch and done % REPORT_EVERY == 0 and done < len(batches):
                watch(history, done * batch / (time.perf_counter() - start))
        history.training_seconds.append(time.perf_counter() - start)
        loss = torch.stack(losses).mean().item()
        check_finite(history, history.steps, {"training loss": loss})
        history.loss.append(loss)
        history.accuracy.append(_accuracy(network, (test[0] - mean) / deviation, test[1]))
        return len(batches)

    kept = Checkpoint(checkpoint, spec, network, optimiser)
    return train_in_segments(kept, History(total=total), epoch, total=total, batch=batch, watch=watch)


def summary(history: History) -> dict[str, Any]:
    """The `numbers` of the result. The time of a step is that of the median epoch: one pause does not change it."""
    return {
        "final_accuracy": history.accuracy[-1],
        "best_accuracy": max(history.accuracy),
        "final_loss": history.loss[-1],
        "step_milliseconds": 1e3 * statistics.median(history.training_seconds) * len(history.loss) / history.steps,
        "seconds": history.seconds,
    }


def progress(spec: CifarSpec, history: History, rate: float) -> tuple[float, float, str]:
    """Share done, rate and text of a `Progress`, from the arguments of `watch`."""
    seen = f", loss {history.loss[-1]:.4f}, test {history.accuracy[-1]:.2f} %" if history.loss else ""
    return history.steps / history.total, rate, f"step {history.steps}/{history.total}{seen}"


def prepare(spec: CifarSpec) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    """The network of `spec` with its initial weights, and its optimiser."""
    network = build(spec.activation, spec.width, seed=seed_of(spec.seed, 0))
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network, torch.optim.SGD(network.parameters(), lr=spec.rate, momentum=MOMENTUM, weight_decay=DECAY)


def train_step(network: nn.Sequential, optimiser: torch.optim.Optimizer, x: Tensor, labels: Tensor) -> Tensor:
    """Forward, backward and SGD on one batch; returns the loss."""
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

"""One training run of a deep fully connected network: SGD with momentum 0.9, gradients clipped at norm 1.

All random numbers of an epoch come from (seed, epoch). Networks of one seed and depth start from the same normal
numbers, scaled by their gains.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isrlu_lab.errors import UserError
from isrlu_lab.training.checkpoint import Checkpoint
from isrlu_lab.training.depth.deep_networks import build, layer_signal, standardised
from isrlu_lab.training.depth.depth_spec import DepthSpec
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.segments import Watch, check_data, train_in_segments
from isrlu_lab.training.worker import check_finite, seed_of

MOMENTUM, CLIP = 0.9, 1.0
PROBED = 1000  # images on which the signal in each layer is measured


@dataclass
class History:
    """What a run records. Losses are mean cross-entropies, accuracies are in percent."""

    loss: list[float] = field(default_factory=list)  # of training, mean over the epoch
    accuracy: list[float] = field(default_factory=list)  # on the test set or the held-out images, after each epoch
    initial: list[list[float]] = field(default_factory=list)  # SIGNALS, each by layer, before training
    final: list[list[float]] = field(default_factory=list)  # and after it
    seconds: float = 0.0  # of training and testing, summed over resumed processes


def train(
    spec: DepthSpec, tensors: ImageTensors, *, checkpoint: Path | None = None, watch: Watch[History] | None = None
) -> History:
    """Run `spec` to its end, from its last checkpoint if there is one; raises Diverged."""
    check_data(spec, tensors)
    (x, labels), (test_x, test_labels) = _split(spec, tensors)
    network = build(spec.activation, spec.depth, spec.width, inputs=x.shape[1], seed=seed_of(spec.seed, 0))
    optimiser = torch.optim.SGD(network.parameters(), lr=spec.rate, momentum=MOMENTUM)
    batch = min(spec.batch, len(labels))
    total = min(spec.epochs * (len(labels) // batch), spec.steps or sys.maxsize)
    probe = test_x[:PROBED], test_labels[:PROBED]

    def epoch(history: History, number: int, step: int) -> int:
        shuffle = torch.Generator().manual_seed(seed_of(spec.seed, number))
        batches = torch.randperm(len(labels), generator=shuffle).split(batch)[: len(labels) // batch][: total - step]
        losses = [_train_step(network, optimiser, x[each], labels[each]) for each in batches]
        loss = torch.stack(losses).mean().item()
        check_finite(history, step + len(batches), {"training loss": loss})
        history.loss.append(loss)
        history.accuracy.append(_accuracy(network, test_x, test_labels))
        return len(batches)

    kept = Checkpoint(checkpoint, spec, network, optimiser)
    new = History(initial=layer_signal(network, *probe))
    history = train_in_segments(kept, new, epoch, total=total, batch=batch, watch=watch)
    history.final = layer_signal(network, *probe)
    return history


def summary(history: History) -> dict[str, Any]:
    """The `numbers` of the result."""
    return {
        "final_accuracy": history.accuracy[-1],
        "final_loss": history.loss[-1],
        "seconds": history.seconds,
    }


def progress(spec: DepthSpec, history: History, rate: float) -> tuple[float, float, str]:
    """Share done, rate and text of a `Progress`, from the arguments of `watch`."""
    epoch, test = len(history.loss), f"{history.accuracy[-1]:.2f} %"
    return epoch / spec.epochs, rate, f"epoch {epoch}/{spec.epochs}, loss {history.loss[-1]:.4f}, test {test}"


def _split(spec: DepthSpec, tensors: ImageTensors) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """What is trained on and what is tested on, both standardised by the former."""
    (images, labels), test = tensors.train, tensors.test
    if spec.held_out:
        if spec.held_out >= len(labels):
            raise UserError(f"cannot hold out {spec.held_out} of {len(labels)} training images: leave some to train on")
        images, held_images = images[: -spec.held_out], images[-spec.held_out :]
        labels, held_labels = labels[: -spec.held_out], labels[-spec.held_out :]
        test = held_images, held_labels
    return (standardised(images, images), labels), (standardised(test[0], images), test[1])


def _train_step(network: nn.Sequential, optimiser: torch.optim.Optimizer, x: Tensor, labels: Tensor) -> Tensor:
    optimiser.zero_grad()
    loss = F.cross_entropy(network(x), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), CLIP)
    optimiser.step()
    return loss.detach()


@torch.inference_mode()
def _accuracy(network: nn.Sequential, x: Tensor, labels: Tensor) -> float:
    return 100.0 * (network(x).argmax(1) == labels).double().mean().item()

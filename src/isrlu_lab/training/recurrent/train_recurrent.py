"""Two tasks for recurrent networks, each trained with ISRU and with exact gates from the same weights and batches.

rows      MNIST row by row: 28 steps of 28 pixels, the last output to 10 classes; accuracy on the test set in percent
adding    200 steps of (number in [0, 1], mark), two marks: the sum of the two marked numbers; mean squared error on
          fresh sequences. Always answering 1 gives 0.167

Adam, gradients clipped at norm 1. The batches between two evaluations are drawn from (seed, evaluation number).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import isrlu.torch
from isrlu_lab.training.checkpoint import Checkpoint
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.recurrent.recurrent_spec import RecurrentSpec
from isrlu_lab.training.segments import Watch, check_data, train_in_segments
from isrlu_lab.training.worker import check_finite, seed_of

SIZES = {"rows": (28, 10), "adding": (2, 1)}  # inputs and outputs
TESTED = 1000  # sequences of the adding problem's test


@dataclass
class History:
    """What a run records at each evaluation on the test set."""

    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)  # of training, mean over the steps since the evaluation before
    score: list[float] = field(default_factory=list)  # accuracy in percent, or mean squared error
    seconds: float = 0.0  # of training and testing, summed over resumed processes


class Network(nn.Module):
    """A recurrent layer, and a dense one on its last output."""

    def __init__(self, spec: RecurrentSpec) -> None:
        super().__init__()
        inputs, outputs = SIZES[spec.task]
        self.layer = getattr(isrlu.torch, spec.layer)(inputs, spec.hidden, gates=spec.gates)
        self.head = nn.Linear(spec.hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[steps, batch, inputs] to [batch, outputs]."""
        return self.head(self.layer(x)[0][-1])


def train(
    spec: RecurrentSpec, tensors: ImageTensors, *, checkpoint: Path | None = None, watch: Watch[History] | None = None
) -> History:
    """Run `spec` to its end, from its last checkpoint if there is one; raises Diverged."""
    if spec.task == "rows":
        check_data(spec, tensors)
    torch.manual_seed(seed_of(spec.seed, 0))
    network = Network(spec)
    optimiser = torch.optim.Adam(network.parameters(), lr=spec.rate)

    def until_evaluation(history: History, evaluation: int, step: int) -> int:
        batches = _batches(spec, tensors, torch.Generator().manual_seed(seed_of(spec.seed, evaluation)))
        count = min(spec.interval, spec.steps - step)
        losses = [_train_step(network, optimiser, *batch) for batch in itertools.islice(batches, count)]
        loss, score = torch.stack(losses).mean().item(), _score(spec, network, tensors)
        check_finite(history, step + count, {"training loss": loss, "test score": score})
        history.steps.append(step + count)
        history.loss.append(loss)
        history.score.append(score)
        return count

    kept = Checkpoint(checkpoint, spec, network, optimiser)
    return train_in_segments(kept, History(), until_evaluation, total=spec.steps, batch=spec.batch, watch=watch)


def summary(history: History) -> dict[str, Any]:
    """The `numbers` of the result."""
    return {"final_score": history.score[-1], "seconds": history.seconds}


def progress(spec: RecurrentSpec, history: History, rate: float) -> tuple[float, float, str]:
    """Share done, rate and text of a `Progress`, from the arguments of `watch`."""
    step, score = history.steps[-1], history.score[-1]
    test = f"{score:.2f} %" if spec.task == "rows" else f"{score:.4f}"
    return step / spec.steps, rate, f"step {step}/{spec.steps}, loss {history.loss[-1]:.4f}, test {test}"


def _train_step(network: Network, optimiser: torch.optim.Optimizer, x: Tensor, target: Tensor) -> Tensor:
    optimiser.zero_grad()
    loss = _loss(network(x), target)
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimiser.step()
    return loss.detach()


def _loss(outputs: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy for classes, squared error for numbers."""
    if target.is_floating_point():
        return nn.functional.mse_loss(outputs, target)
    return nn.functional.cross_entropy(outputs, target)


@torch.inference_mode()
def _score(spec: RecurrentSpec, network: Network, tensors: ImageTensors) -> float:
    """Accuracy or error over the whole test; a thousand sequences at a time, as all at once would need half a GB."""
    if spec.task == "adding":
        x, target = next(sums(spec.length, TESTED, torch.Generator().manual_seed(seed_of(spec.seed, 0, 1))))
        return _loss(network(x), target).item()
    images, labels = tensors.test
    outputs = torch.cat([network(rows(part)) for part in images.split(1000)])
    return 100 * (outputs.argmax(1) == labels).double().mean().item()


def _batches(spec: RecurrentSpec, tensors: ImageTensors, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    if spec.task == "adding":
        return sums(spec.length, spec.batch, generator)
    return _shuffled(*tensors.train, spec.batch, generator)


def _shuffled(
    images: Tensor, labels: Tensor, batch: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    batch = min(batch, len(labels))
    while True:
        for chosen in torch.randperm(len(labels), generator=generator).split(batch):
            if len(chosen) == batch:
                yield rows(images[chosen]), labels[chosen]


def rows(images: Tensor) -> Tensor:
    """The images' rows as steps: [n, 1, 28, 28] to [28, n, 28]."""
    return images.squeeze(1).transpose(0, 1).contiguous()


def sums(length: int, batch: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """The adding problem without end: numbers with one mark in each half of the sequence, and their marked sums."""
    half = length // 2
    while True:
        numbers = torch.rand(length, batch, generator=generator)
        first, second = torch.randint(half, (2, batch), generator=generator)
        marks = torch.zeros_like(numbers)
        each = torch.arange(batch)
        marks[first, each] = marks[half + second, each] = 1.0
        yield torch.stack([numbers, marks], 2), (numbers * marks).sum(0).unsqueeze(1)

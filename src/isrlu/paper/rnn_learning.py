"""Two tasks for recurrent networks, each trained with ISRU and with exact gates from the same weights and batches.

rows      MNIST row by row: 28 steps of 28 pixels, the last output to 10 classes; accuracy on the test set in percent
adding    200 steps of (number in [0, 1], mark), two marks: the sum of the two marked numbers; mean squared error on
          fresh sequences. Always answering 1 gives 0.167
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isrlu.data import Dataset
from isrlu.torch import GRU, LSTM

LAYERS: dict[str, type[nn.Module]] = {"LSTM": LSTM, "GRU": GRU}
GATES = ("isru", "exact")


@dataclass(frozen=True)
class Task:
    """A task and how it is trained: Adam, gradients clipped at norm 1, the test looked at every `interval` steps."""

    name: str
    inputs: int
    outputs: int
    hidden: int
    steps: int
    interval: int
    batch: int = 100
    rate: float = 1e-3
    length: int = 200  # of the adding problem's sequences


def tasks(full: bool) -> tuple[Task, Task]:
    """Full: 10 epochs of MNIST and 6,000 steps of adding. Quick: enough to see that the loss falls."""
    rows = Task("rows", 28, 10, hidden=128, steps=6000 if full else 150, interval=300 if full else 50)
    adding = Task("adding", 2, 1, hidden=64, steps=6000 if full else 60, interval=200 if full else 20, batch=50)
    return rows, adding


class Network(nn.Module):
    """A recurrent layer, and a dense one on its last output."""

    def __init__(self, task: Task, layer: str, gates: str) -> None:
        super().__init__()
        self.layer = LAYERS[layer](task.inputs, task.hidden, gates=gates)
        self.head = nn.Linear(task.hidden, task.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[steps, batch, inputs] to [batch, outputs]."""
        return self.head(self.layer(x)[0][-1])


def train(
    task: Task, layer: str, gates: str, seed: int, data: Dataset | None, tell: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """One run: the steps at which the test was looked at, its scores, and the training losses between."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(task, layer, gates)
    optimizer = torch.optim.Adam(network.parameters(), lr=task.rate)
    loss_of = nn.functional.cross_entropy if task.name == "rows" else nn.functional.mse_loss
    test = _mnist(data.test_images, data.test_labels) if data else next(_sums(task, 1000, seed=10_000))
    batches = _batches(task, seed, data)
    found: dict[str, Any] = {"task": asdict(task), "steps": [], "score": [], "loss": []}
    losses = []
    for step in range(1, task.steps + 1):
        x, target = next(batches)
        optimizer.zero_grad()
        loss = loss_of(network(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % task.interval == 0:
            found["steps"].append(step)
            found["score"].append(_score(task, network, *test))
            found["loss"].append(float(np.mean(losses)))
            losses.clear()
            tell(step)
    return found


@torch.inference_mode()
def _score(task: Task, network: Network, x: Tensor, target: Tensor) -> float:
    """Accuracy or error over the whole test; a thousand sequences at a time, as all at once would need half a GB."""
    outputs = torch.cat([network(part) for part in x.split(1000, dim=1)])
    if task.name == "rows":
        return 100 * (outputs.argmax(1) == target).float().mean().item()
    return nn.functional.mse_loss(outputs, target).item()


def _batches(task: Task, seed: int, data: Dataset | None) -> Iterator[tuple[Tensor, Tensor]]:
    if data is None:
        return _sums(task, task.batch, seed)
    return _shuffled(*_mnist(data.train_images, data.train_labels), task.batch, seed)


def _mnist(images: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
    """Rows of pixels in [0, 1] as steps [28, n, 28], and the classes."""
    pixels = torch.tensor(images, dtype=torch.float32).div_(255)
    return pixels.transpose(0, 1).contiguous(), torch.tensor(labels, dtype=torch.int64)


def _shuffled(x: Tensor, target: Tensor, batch: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        for chosen in torch.randperm(len(target), generator=generator).split(batch):
            if len(chosen) == batch or len(target) < batch:
                yield x[:, chosen], target[chosen]


def _sums(task: Task, batch: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Numbers with one mark in each half of the sequence."""
    generator = torch.Generator().manual_seed(seed)
    half = task.length // 2
    while True:
        numbers = torch.rand(task.length, batch, generator=generator)
        first, second = torch.randint(half, (2, batch), generator=generator)
        marks = torch.zeros_like(numbers)
        each = torch.arange(batch)
        marks[first, each] = marks[half + second, each] = 1.0
        yield torch.stack([numbers, marks], 2), (numbers * marks).sum(0).unsqueeze(1)

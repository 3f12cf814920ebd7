"""One training run: Adam, learning rate 0.0001 + 0.003 exp(-step / 2000), batches drawn by shuffled epoch.

All random numbers of an epoch come from (seed, epoch, rank). A run that resumes from a checkpoint therefore needs no
generator state and ends with the same bits as an uninterrupted one (same machine, same number of threads).
Under torchrun each rank takes its share of every batch (DistributedDataParallel).
"""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isrlu_lab.errors import UserError
from isrlu_lab.training.checkpoint import Checkpoint
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.mnist import networks
from isrlu_lab.training.mnist.distributed import Ranks
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.segments import check_data
from isrlu_lab.training.worker import check_finite, seed_of

LOSS_EVERY = 100  # steps that one point of the training loss is the mean of
TEST_BATCH = 100  # images at a time through the test set: more do not fit the caches
TRACKED = 1000  # test images over which each hidden unit's activation is averaged


@dataclass
class History:
    """What a run records, as plain lists. Losses are mean cross-entropies, accuracies are in percent."""

    train_steps: list[int] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)  # mean over the steps since the one before
    test_steps: list[int] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    unit_epochs: list[int] = field(default_factory=list)  # 0 is before training
    unit_mean: list[list[float]] = field(default_factory=list)  # per epoch and hidden layer, over the layer's units
    unit_median: list[list[float]] = field(default_factory=list)
    alphas: list[list[float]] = field(default_factory=list)  # per epoch and layer, where alpha is learned
    steps_per_epoch: int = 0
    seconds: float = 0.0  # of training and evaluation, summed over resumed processes


Watch = Callable[[History, float], None]  # called after each point of the training loss: so far, images/s


def train(
    spec: MnistSpec,
    tensors: ImageTensors,
    *,
    checkpoint: Path | None = None,
    watch: Watch | None = None,
    ranks: Ranks | None = None,
) -> History:
    """Run `spec` to its end, from its last checkpoint if there is one; alone, or as one of `ranks`. Raises Diverged."""
    check_data(spec, tensors)
    run = _Run(spec, tensors, ranks or Ranks())
    kept = Checkpoint(checkpoint, spec, run.network, run.optimiser)
    run.epoch, run.step, run.history = kept.load(run.history)
    if run.epoch == 0:  # a new run
        run.track()
    while run.epoch < spec.epochs and not run.ended:
        run.one_epoch(watch)
        if run.ranks.first:
            kept.save(run.epoch, run.step, run.history)
    return run.history


def learning_rate(step: int) -> float:
    """0.0001 + 0.003 exp(-step / 2000)."""
    return 0.0001 + 0.003 * math.exp(-step / 2000)


class _Run:
    """The state of a run: position, network, optimiser and history."""

    def __init__(self, spec: MnistSpec, tensors: ImageTensors, ranks: Ranks) -> None:
        self.spec, self.tensors, self.ranks = spec, tensors, ranks
        self.batch = min(spec.batch, len(tensors.train[1]))
        if self.batch % ranks.count:
            raise UserError(f"batches of {self.batch} can't be shared out evenly to {ranks.count} processes")
        self.network = networks.build(
            spec.architecture,
            spec.activation,
            spec.alpha,
            learnable=spec.learnable,
            method=spec.method,
            width=spec.width,
            pkeep=spec.pkeep,
            pkeep_conv=spec.pkeep_conv,
            seed=seed_of(spec.seed, 0),
        ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.model = ranks.wrap(self.network)
        self.optimiser = torch.optim.Adam(self.network.parameters(), fused=True)
        self.epoch = self.step = 0
        self.history = History(steps_per_epoch=len(tensors.train[1]) // self.batch)

    @property
    def ended(self) -> bool:
        return 0 < self.spec.steps <= self.step

    def one_epoch(self, watch: Watch | None) -> None:
        """Train on every batch of the shuffled data once, with evaluations on the test set in between."""
        images, labels = self.tensors.train
        torch.manual_seed(seed_of(self.spec.seed, self.epoch + 1, self.ranks.rank))  # of dropout
        shuffle = torch.Generator().manual_seed(seed_of(self.spec.seed, self.epoch + 1))
        batches = torch.randperm(len(labels), generator=shuffle).split(self.batch)
        batches = [each for each in batches if len(each) == self.batch]
        if self.spec.steps:
            batches = batches[: self.spec.steps - self.step]
        count = min(self.spec.evaluations, len(batches))
        evaluated = {round(len(batches) * (i + 1) / count) for i in range(count)}
        start, steps = time.perf_counter(), 0
        losses: list[Tensor] = []
        for number, batch in enumerate(batches, 1):
            mine = self.ranks.share(batch)
            losses.append(self._train_step(images[mine], labels[mine]))
            steps += 1
            if self.step % LOSS_EVERY and number not in evaluated:
                continue
            self._note_loss(losses)
            rate = steps * self.batch / (time.perf_counter() - start)
            if number in evaluated:
                self._test()
                if number == len(batches):
                    self.epoch += 1
                    self.track()
                self.history.seconds += time.perf_counter() - start
                start, steps = time.perf_counter(), 0
            if watch and self.ranks.first:
                watch(self.history, rate)

    def _train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        self.optimiser.param_groups[0]["lr"] = learning_rate(self.step)
        self.optimiser.zero_grad()
        loss = F.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimiser.step()
        self.step += 1
        return loss.detach()

    def _note_loss(self, losses: list[Tensor]) -> None:
        value = self.ranks.mean(torch.stack(losses).mean())
        losses.clear()
        self._check("training loss", value)
        self.history.train_steps.append(self.step)
        self.history.train_loss.append(value)

    @torch.no_grad()
    def _test(self) -> None:
        """Loss and accuracy over the whole test set."""
        images, labels = self.tensors.test
        self.network.eval()
        logits = torch.cat([self.network(chunk) for chunk in images.split(TEST_BATCH)])
        self.network.train()
        loss = F.cross_entropy(logits, labels).item()
        self._check("test loss", loss)
        self.history.test_steps.append(self.step)
        self.history.test_loss.append(loss)
        self.history.test_accuracy.append(100.0 * (logits.argmax(1) == labels).double().mean().item())

    def _check(self, what: str, value: float) -> None:
        check_finite(self.history, self.step, {what: value})

    @torch.no_grad()
    def track(self) -> None:
        """Each hidden unit's mean activation over the first test images; of these, the mean and median per layer."""
        self.network.eval()
        layers = networks.hidden_activations(self.network, self.tensors.test[0][:TRACKED])
        self.network.train()
        units = [layer.double().mean(0).flatten() for layer in layers]
        self._check("mean activation", sum(each.mean().item() for each in units))
        self.history.unit_epochs.append(self.epoch)
        self.history.unit_mean.append([each.mean().item() for each in units])
        self.history.unit_median.append([statistics.median(each.tolist()) for each in units])
        if self.spec.learnable:
            alphas = [_alpha(each) for each in self.network if hasattr(each, "alpha")]
            self._check("alpha", sum(alphas))
            self.history.alphas.append(alphas)


def summary(history: History) -> dict[str, Any]:
    """The `numbers` of the result: highest accuracy, final loss times 100 as in the paper."""
    return {
        "best_accuracy": max(history.test_accuracy),
        "final_accuracy": history.test_accuracy[-1],
        "final_loss": 100.0 * history.test_loss[-1],
        "seconds": history.seconds,
    }


def progress(spec: MnistSpec, history: History, rate: float) -> tuple[float, float, str]:
    """Share done, rate and text of a `Progress`, from the arguments of `watch`."""
    step, steps = history.train_steps[-1], spec.epochs * history.steps_per_epoch
    epoch = round(step / history.steps_per_epoch, 2)
    test = f", test {history.test_accuracy[-1]:.2f} %" if history.test_accuracy else ""
    share = step / min(steps, spec.steps or steps)
    return share, rate, f"epoch {epoch:g}/{spec.epochs}, loss {history.train_loss[-1]:.4f}{test}"


def _alpha(module: nn.Module) -> float:
    value = module.alpha
    return float(value.detach().mean()) if isinstance(value, Tensor) else float(value)  # type: ignore[arg-type]

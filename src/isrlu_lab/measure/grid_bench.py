"""Images per second of the MNIST grid (ISRLU, all workers) and of a plain PyTorch loop (F.elu, all threads).

The contenders are interleaved. "grid" is the local engine as `isrlu reproduce` runs it: one run per worker, one thread
per worker. "one run" is the same engine with one worker on all threads. No contender's time includes loading the
data, starting workers or evaluating on the test set.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isrlu_lab import data, environment
from isrlu_lab.errors import print_error
from isrlu_lab.measure.measurement import Measurement
from isrlu_lab.measure.printer import Column, Layout, Tables, label_columns, ratio_column
from isrlu_lab.training.image_tensors import ImageTensors
from isrlu_lab.training.local_engine import LocalEngine
from isrlu_lab.training.mnist import networks
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.mnist.train_mnist import learning_rate

LAYOUT = Layout(
    title=lambda m: f"images per second, architecture {m.architecture}",
    labels=label_columns("contender"),
    figures=[
        Column("images/s in each round", lambda m: ", ".join(f"{rate:,.0f}" for rate in m.rates)),
        Column("median", lambda m: f"{m.images_per_second:,.0f}"),
        ratio_column("grid's throughput", "grid_speedup"),
    ],
)


def bench(
    *,
    architecture: int,
    training_steps: int,
    training_rounds: int,
    data: str | None,
    progress: Callable[[str], None],
) -> Tables:
    """`isrlu bench mnist`."""
    options = {"steps": training_steps, "rounds": training_rounds}
    rates = run(data, architecture, **options, say=progress, warn=print_error)
    found = []
    for name, each in rates.items():
        figures = {"images_per_second": statistics.median(each), "grid_speedup": ratio(rates, name), "rates": each}
        found.append(Measurement({"architecture": architecture, "contender": name}, figures))
    return [(LAYOUT, found)]


class _Elu(nn.Module):
    """F.elu, as in a plain loop."""

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x)


def run(
    folder: str | None,
    architecture: int,
    *,
    steps: int,
    rounds: int,
    say: Callable[[str], None],
    warn: Callable[[str], object],
) -> dict[str, list[float]]:
    """Images per second of "plain", "one run" (on all threads) and "grid", one number for each round."""
    source, reason = data.find_or_digits(folder)
    loaded = data.load(source)
    if reason:
        warn(f"{reason}; measures on {loaded.title}")
    found: dict[str, list[float]] = {"plain": [], "one run": [], "grid": []}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        found["plain"].append(_plain(ImageTensors(loaded), architecture, steps))
        for name, threads in (("one run", environment.threads()), ("grid", 1)):
            found[name].append(_grid(source, loaded.identity, architecture, steps, threads))
    return found


def ratio(found: dict[str, list[float]], other: str = "plain") -> float:
    """Median over the rounds of grid / other."""
    return statistics.median(grid / rate for grid, rate in zip(found["grid"], found[other], strict=True))


def _plain(arrays: ImageTensors, architecture: int, steps: int) -> float:
    """A straightforward training loop, with PyTorch's defaults."""
    torch.set_num_threads(environment.threads())
    spec = _spec(architecture, steps, arrays.identity)
    network = networks.build(architecture, "elu", pkeep=spec.pkeep, pkeep_conv=spec.pkeep_conv, seed=0)
    for number, layer in enumerate(network):
        if isinstance(layer, nn.ELU):
            network[number] = _Elu()
    optimiser = torch.optim.Adam(network.parameters())
    images, labels = arrays.train[0].contiguous(), arrays.train[1]
    batches = torch.from_numpy(np.random.default_rng(0).integers(0, len(labels), (steps + 5, spec.batch)))
    start = 0.0
    for step, batch in enumerate(batches):
        if step == 5:  # the steps before warm up: they choose the convolutions' algorithms
            start = time.perf_counter()
        optimiser.param_groups[0]["lr"] = learning_rate(step)
        optimiser.zero_grad()
        F.cross_entropy(network(images[batch]), labels[batch]).backward()
        optimiser.step()
    return steps * spec.batch / (time.perf_counter() - start)


def _grid(source: str, identity: str, architecture: int, steps: int, threads: int) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        engine = LocalEngine(source, Path(scratch), threads=threads)
        specs = [_spec(architecture, steps, identity, seed) for seed in range(engine.workers)]
        rates: dict[int, list[float]] = {}
        for ended in engine.run(specs, lambda event: rates.setdefault(event.spec.seed, []).append(event.rate)):
            if ended.status != "done":
                raise RuntimeError(f"a run of the grid {ended.status}: {ended.reason}")
    return sum(map(statistics.mean, rates.values()))


def _spec(architecture: int, steps: int, identity: str, seed: int = 0) -> MnistSpec:
    conv = 0.7 if architecture == 2 else 1.0
    return MnistSpec(architecture=architecture, pkeep_conv=conv, epochs=100, steps=steps, seed=seed, data=identity)

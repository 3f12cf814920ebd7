"""What an activation costs within a network: a training step of the paper's two CNNs, and a compiled block."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from isrlu.torch import ISRLU
from isrlu_lab.measure.measurement import Measurement, seconds_figures
from isrlu_lab.measure.printer import SPREAD, Column, Layout, label_columns
from isrlu_lab.measure.timer import measure
from isrlu_lab.training.mnist import networks

BATCH = 100  # the paper's
ACTIVATIONS = ("relu", "elu", "isrlu")


LAYOUT = Layout(
    title=lambda m: "within a network",
    labels=[*label_columns("what", "activation"), Column("", lambda m: "in place" if m.inplace else "")],
    figures=[
        Column("ms", lambda m: f"{m.seconds * 1e3:.2f}"),
        Column("of ReLU", lambda m: f"{m.of_relu:.3f}x"),
        SPREAD,
        Column("peak MB", lambda m: "" if m.peak_bytes is None else f"{m.peak_bytes / 1e6:.2f}"),
    ],
)


def run(*, rounds: int = 25, progress: Callable[[str], None] = lambda _: None) -> list[Measurement]:
    """Both architectures, with activations in place and not, then the compiled block."""
    found: list[Measurement] = []
    for architecture in (1, 2):
        for inplace in (True, False):
            what = f"training step, architecture {architecture}"
            progress(f"{what}, {'' if inplace else 'not '}in place")
            calls = {name: training_step(architecture, name, inplace) for name in ACTIVATIONS}
            peaks = {name: peak_memory(call) for name, call in calls.items()}
            found += _measure_steps(what, inplace, calls, peaks, rounds)
    for what, prepare in (("compiled block, forward", block), ("compiled block, with backward", block_with_backward)):
        progress(what)
        found += _measure_steps(what, False, {name: prepare(name) for name in ACTIVATIONS}, {}, rounds)
    return found


def _measure_steps(
    what: str, inplace: bool, calls: dict[str, Callable[[], object]], peaks: dict[str, int], rounds: int
) -> list[Measurement]:
    samples = measure(calls, rounds=rounds)
    return [
        Measurement(
            {"what": what, "activation": name, "inplace": inplace},
            {**seconds_figures(samples, name, relative_to={"of_relu": "relu"}), "peak_bytes": peaks.get(name)},
        )
        for name in samples
    ]


def training_step(architecture: int, activation: str, inplace: bool, batch: int = BATCH) -> Callable[[], object]:
    """Forward, backward and Adam on one batch of random images."""
    network = networks.build(architecture, activation, pkeep=0.4, pkeep_conv=0.7, seed=0)
    for module in network.modules():
        if hasattr(module, "inplace") and not isinstance(module, nn.Dropout):
            setattr(module, "inplace", inplace)  # noqa: B010, every kind of module
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(batch, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (batch,), generator=generator)

    def call() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return call


def peak_memory(call: Callable[[], object]) -> int:
    """Peak of the bytes that PyTorch's CPU allocator hands out during the call, beyond those allocated before."""
    call()  # creates the optimiser's state
    with _silent_stderr(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        call()  # the profiler knows the size of freed memory only if it saw the allocation
        with record_function("measured"):
            call()
    events = sorted(found.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    measured = itertools.dropwhile(lambda event: event.name() != "measured", events)
    return max(itertools.accumulate(event.nbytes() for event in measured if event.name() == "[memory]"))


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drop what PyTorch's profiler writes to file descriptor 2 from C++: two log lines for each profile."""
    saved = os.dup(2)
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class Block(nn.Module):
    """A convolution with bias, an activation, dropout: of the size of architecture 2's first layers."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        kinds = {"relu": nn.ReLU, "elu": nn.ELU, "isrlu": ISRLU}
        self.layers = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), kinds[activation](), nn.Dropout(0.3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def block(activation: str) -> Callable[[], object]:
    """The block's forward pass under torch.compile, in training mode."""
    compiled, x = torch.compile(Block(activation), fullgraph=True), _block_input()

    def call() -> Tensor:
        with torch.no_grad():
            return compiled(x)

    return call


def block_with_backward(activation: str) -> Callable[[], object]:
    """The same with its backward pass."""
    compiled, x = torch.compile(Block(activation), fullgraph=True), _block_input()
    grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    return lambda: compiled(x).backward(grad)


def _block_input() -> Tensor:
    return torch.randn(16, 64, 28, 28, generator=torch.Generator().manual_seed(0))

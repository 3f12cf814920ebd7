"""Recurrent layers against torch.nn's, and the gates' kernel with ISRU against the one with sigmoid and tanh."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

import isrlu_lab._measure as _measure
from isrlu.testing import check_recurrent, recurrent_step
from isrlu.torch import GRU, LSTM
from isrlu_lab.measure import realtime_bench
from isrlu_lab.measure.kernel_bench import placed
from isrlu_lab.measure.measurement import Measurement, ns_figures, seconds_figures
from isrlu_lab.measure.printer import SPREAD, Column, Layout, Tables, label_columns, ratio_column
from isrlu_lab.measure.timer import Sample, measure, measure_loops
from isrlu_lab.measure.torch_bench import using_threads

STEPS = 64
HIDDEN = (64, 128, 256, 512)
BATCHES = (1, 32)
OURS: dict[str, Any] = {"LSTM": LSTM, "GRU": GRU}
GATE_ROWS, GATE_HIDDEN = 32, 128


GATES_LAYOUT = Layout(
    title=lambda m: "gates alone, forward, one thread",
    labels=label_columns("simd", "layer", "gates"),
    figures=[Column("ns/unit", lambda m: f"{m.ns:.3f}"), ratio_column("of exact's speed", "speedup"), SPREAD],
)
LAYERS_LAYOUT = Layout(
    title=lambda m: "layers",
    labels=[
        *label_columns("layer", "what", "contender"),
        Column("batch", lambda m: str(m.batch)),
        Column("hidden", lambda m: str(m.hidden)),
    ],
    figures=[
        Column("µs/step", lambda m: f"{m.seconds * 1e6:.2f}"),
        ratio_column("of torch.nn's speed", "speedup"),
        SPREAD,
    ],
)


def bench(
    *,
    batch: list[int] | None,
    hidden: list[int] | None,
    layer_threads: int,
    simd: list[str],
    rounds: int,
    progress: Callable[[str], None],
) -> Tables:
    """`isrlu bench rnn`: gates in every instruction set, then layers, then short calls of one sequence."""
    gates = run_gates(simd, rounds=rounds, progress=progress)
    sizes = {"batches": batch or BATCHES, "hidden": hidden or HIDDEN}
    layers = run_layers(**sizes, threads=layer_threads, rounds=rounds, progress=progress)
    calls = realtime_bench.run_calls(threads=layer_threads, rounds=rounds, progress=progress)
    return [(GATES_LAYOUT, gates), (LAYERS_LAYOUT, layers), (realtime_bench.LAYOUT, calls)]


def run_layers(
    batches: Iterable[int] = BATCHES,
    hidden: Iterable[int] = HIDDEN,
    *,
    threads: int = 2,
    rounds: int = 25,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Measurement]:
    """Every layer, batch and size, inference and training: seconds per step of torch.nn, ISRU and exact gates."""
    found = []
    with using_threads(threads):
        for layer in OURS:
            for what, prepare in (("inference", inference), ("training", training)):
                for batch in batches:
                    for size in hidden:
                        progress(f"{layer}, {what}, batch {batch}, hidden {size}")
                        samples = time_layers(layer, prepare, batch, size, rounds)
                        labels = {"layer": layer, "what": what, "batch": batch, "hidden": size, "threads": threads}
                        for name in samples:
                            figures = seconds_figures(samples, name, calls=STEPS, speedup_over="torch.nn")
                            found.append(Measurement({**labels, "contender": name}, figures))
    return found


def time_layers(
    layer: str, prepare: Callable[..., Callable[[], object]], batch: int, hidden: int, rounds: int
) -> dict[str, Sample]:
    """Seconds per sequence of 64 steps, input as wide as hidden; exact gates are first compared with torch.nn."""
    torch.manual_seed(0)
    original = getattr(nn, layer)(hidden, hidden)
    modules = {"torch.nn": original, **{g: OURS[layer].from_torch(original, gates=g) for g in ("isru", "exact")}}
    x = torch.randn(STEPS, batch, hidden)
    with torch.no_grad():
        torch.testing.assert_close(modules["exact"](x)[0], original(x)[0], rtol=0, atol=1e-5)
    return measure({name: prepare(module, x) for name, module in modules.items()}, rounds=rounds)


def inference(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    """The sequence, nothing kept."""

    def call() -> None:
        with torch.inference_mode():
            module(x)

    return call


def training(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    """Forward and backward, with gradients of the weights and of the input."""
    x = x.clone().requires_grad_()
    leaves = [x, *module.parameters()]
    grad = torch.randn(*x.shape[:2], int(module.hidden_size))  # type: ignore[arg-type]

    def call() -> None:
        torch.autograd.grad(module(x)[0], leaves, grad)

    return call


def run_gates(
    simds: Iterable[str],
    *,
    rows: int = GATE_ROWS,
    hidden: int = GATE_HIDDEN,
    rounds: int = 25,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Measurement]:
    """The gates' kernel alone, float32, one thread, in ns per row and hidden unit: a step without its products."""
    found = []
    for simd in simds:
        for layer in OURS:
            progress(f"{layer} gates, {simd}")
            samples = time_gates(simd, layer, rows, hidden, rounds)
            for name in samples:
                figures = ns_figures(samples, name, elements=rows * hidden, speedup_over="exact")
                found.append(Measurement({"simd": simd, "layer": layer, "gates": name}, figures))
    return found


def time_gates(simd: str, layer: str, rows: int, hidden: int, rounds: int) -> dict[str, Sample]:
    """Seconds per call with ISRU and with exact gates; each is compared with float64 first."""
    calls = {name: gates_call(simd, layer, name, rows, hidden) for name in ("isru", "exact")}
    return measure_loops(calls, rounds=rounds)


class gates_call:
    """The gates' kernel on its own arrays, checked against float64 when made: a call times `loops` runs in seconds."""

    def __init__(self, simd: str, layer: str, gates: str, rows: int, hidden: int) -> None:
        random = np.random.default_rng(0)
        float32 = np.dtype("float32")
        arguments = placed(2 * random.standard_normal(rows * 4 * hidden), float32, 0)
        h, c = (placed(random.standard_normal(rows * hidden), float32, offset) for offset in (1344, 2688))
        new_h, new_c = (placed(np.zeros(rows * hidden), float32, offset) for offset in (512, 3200))
        self.arrays = (arguments, h, c, new_h, new_c)  # kept alive here: the kernel has only their addresses
        addresses = [each.ctypes.data for each in self.arrays]
        self.call = partial(_measure.time_gates, simd, layer, gates, rows, hidden, *addresses)
        self.call(1)
        self.expected = recurrent_step(
            layer, gates, arguments.reshape(rows, 4, hidden), h.reshape(rows, hidden), c.reshape(rows, hidden)
        )
        check_recurrent(new_h.reshape(rows, hidden), self.expected[0], "float32")
        if layer == "LSTM":
            check_recurrent(new_c.reshape(rows, hidden), self.expected[1], "float32")

    def __call__(self, loops: int) -> float:
        return self.call(loops)

"""Short calls of one sequence, as in real-time audio: LSTM and GRU with and without packed weights, and torch.nn's."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isrlu.torch import GRU, LSTM
from isrlu_lab.measure.measurement import Measurement, seconds_figures
from isrlu_lab.measure.printer import SPREAD, Column, Layout, label_columns, ratio_column
from isrlu_lab.measure.timer import Sample, measure
from isrlu_lab.measure.torch_bench import using_threads

OURS: dict[str, Any] = {"LSTM": LSTM, "GRU": GRU}
SIZES = ((1, 8), (1, 40), (1, 64), (16, 40), (64, 64))  # steps of a call, hidden

LAYOUT = Layout(
    title=lambda m: "calls of one sequence, inference, states handed on",
    labels=[
        *label_columns("layer", "contender"),
        Column("steps", lambda m: str(m.steps)),
        Column("hidden", lambda m: str(m.hidden)),
    ],
    figures=[
        Column("µs/call", lambda m: f"{m.seconds * 1e6:.2f}"),
        ratio_column("of torch.nn's speed", "speedup"),
        SPREAD,
    ],
)


def run_calls(*, threads: int, rounds: int, progress: Callable[[str], None]) -> list[Measurement]:
    """Every layer and size: seconds of a call of torch.nn, ISRU gates, and ISRU gates with packed weights."""
    found = []
    with using_threads(threads):
        for layer in OURS:
            for steps, hidden in SIZES:
                progress(f"{layer}, one sequence, {steps} steps, hidden {hidden}")
                samples = time_calls(layer, steps, hidden, rounds)
                labels = {"layer": layer, "steps": steps, "hidden": hidden, "threads": threads}
                for name in samples:
                    figures = seconds_figures(samples, name, speedup_over="torch.nn")
                    found.append(Measurement({**labels, "contender": name}, figures))
    return found


def time_calls(layer: str, steps: int, hidden: int, rounds: int) -> dict[str, Sample]:
    """Seconds per call; packed weights are first compared with the others, exact gates with torch.nn."""
    torch.manual_seed(0)
    original = getattr(nn, layer)(hidden, hidden).eval()
    isru, exact = (OURS[layer].from_torch(original, gates=gates) for gates in ("isru", "exact"))
    packed = copy.deepcopy(isru).pack_weights()
    x = torch.randn(steps, 1, hidden)
    with torch.inference_mode():
        states = original(x)[1]
        torch.testing.assert_close(packed(x, states)[0], isru(x, states)[0], rtol=0, atol=1e-5)
        exact.pack_weights()
        torch.testing.assert_close(exact(x, states)[0], original(x, states)[0], rtol=0, atol=1e-5)
        modules = {"torch.nn": original, "isru": isru, "isru, packed": packed}
        return measure({name: _call(module, x, states) for name, module in modules.items()}, rounds=rounds)


def _call(module: nn.Module, x: torch.Tensor, states: Any) -> Callable[[], object]:
    return lambda: module(x, states)

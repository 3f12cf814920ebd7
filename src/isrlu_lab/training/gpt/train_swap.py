"""DyISRU in place of the norms of a trained LayerNorm network, and further training.

The network comes from the weights that its own run kept, or is trained again where they are missing. It is evaluated
on the whole validation text at once, after a quarter of the further steps, and after all of them. The further steps
have a constant learning rate after 20 steps of warm-up and a new AdamW. They are not interrupted: they take seconds.
"""

import itertools
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

import isrlu.torch
from isrlu_lab.training.gpt.gpt_spec import GptSpec, SwapSpec
from isrlu_lab.training.gpt.model import Gpt
from isrlu_lab.training.gpt.train_gpt import (
    History,
    evaluate,
    make_optimiser,
    record,
    save_weights,
    train_network,
    train_steps,
    weights_path,
)
from isrlu_lab.training.segments import Watch, check_data
from isrlu_lab.training.text_tensors import TextTensors
from isrlu_lab.training.worker import seed_of

WARMUP = 20  # steps
BATCHES = 16  # of calibration
SWAPPED = 1 << 20  # evaluation number that the seeds of this module's batches begin with


@dataclass
class SwapHistory(History):
    """What a run records. All evaluations are on the whole validation text; the first one is at the swap itself."""

    fit: list[float] = field(default_factory=list)  # R^2 of each layer that `fit` has set


def train(
    spec: SwapSpec, tensors: TextTensors, *, checkpoint: Path | None = None, watch: Watch[SwapHistory] | None = None
) -> SwapHistory:
    """Run `spec` to its end; raises Diverged."""
    check_data(spec, tensors)
    network = _trained(spec.parent, tensors, checkpoint)
    start = time.perf_counter()
    history = SwapHistory()
    if spec.swap != "none":
        isrlu.torch.swap(network, {nn.LayerNorm: isrlu.torch.DyISRU.from_norm})
    if spec.swap == "fit":
        drawn = tensors.training_batches(spec.context, spec.batch, BATCHES, _generator(spec, 0))
        history.fit = [
            float(each) for each in isrlu.torch.fit(network, [windows[:, :-1] for windows in drawn]).values()
        ]
    windows = tensors.validation_windows(spec.context)
    at_once = evaluate(network, windows)
    record(history, 0, at_once, at_once)
    optimiser = make_optimiser(network, spec.further_rate)
    rates = [spec.further_rate * min(1.0, (step + 1) / WARMUP) for step in range(spec.further)]
    for number, (first, last) in enumerate(itertools.pairwise((0, spec.further // 4, spec.further)), 1):
        loss = train_steps(network, optimiser, tensors, spec, seed_of(spec.seed, SWAPPED, number), rates[first:last])
        record(history, last, loss, evaluate(network, windows))
        history.seconds = time.perf_counter() - start
        if watch:
            watch(history, last * spec.batch / history.seconds)
    return history


def summary(history: SwapHistory) -> dict[str, Any]:
    """The `numbers` of the result."""
    return {"final_loss": history.validation[-1], "seconds": history.seconds}


def progress(spec: SwapSpec, history: SwapHistory, rate: float) -> tuple[float, float, str]:
    """Share done, rate and text of a `Progress`, from the arguments of `watch`."""
    step = history.steps[-1]
    return step / spec.further, rate, f"step {step}/{spec.further}, validation {history.validation[-1]:.4f}"


def _trained(spec: GptSpec, tensors: TextTensors, checkpoint: Path | None) -> Gpt:
    """The trained network of `spec`, from its kept weights or from its own training."""
    path = weights_path(checkpoint, spec) if checkpoint else None
    if path and path.exists():
        network = Gpt(spec, tensors.characters)
        network.load_state_dict(torch.load(path, weights_only=True))
        return network
    network, _ = train_network(spec, tensors, checkpoint=checkpoint and checkpoint.with_name(f"{spec.hash}.pt"))
    if path:
        save_weights(path, network)
    return network


def _generator(spec: SwapSpec, number: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(spec.seed, SWAPPED, number))

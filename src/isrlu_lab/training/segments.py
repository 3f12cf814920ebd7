"""The loop of a training run in segments (epochs, or the steps between two evaluations), with a checkpoint after each.

The random numbers of a segment come from (seed, number of the segment). A run that resumes from its checkpoint ends
with the same bits as an uninterrupted one.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import nn

from isrlu_lab.errors import UserError
from isrlu_lab.training.checkpoint import load_checkpoint, save_checkpoint
from isrlu_lab.training.run_spec import RunSpec
from isrlu_lab.training.tensors import Tensors


class TimedHistory(Protocol):
    """What a run records; `seconds` of training and testing, summed over resumed processes."""

    seconds: float


H = TypeVar("H", bound=TimedHistory)


def train_in_segments(
    spec: RunSpec,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    history: H,
    segment: Callable[[H, int, int], int],
    *,
    total: int,
    batch: int,
    checkpoint: Path | None,
    watch: Callable[[H, float], None] | None,
) -> H:
    """Call segment(history, number, step) until `total` steps are done; it trains, records, and returns its steps.

    history: of a new run; if there is a checkpoint, its own takes its place.
    watch: called after each segment with the history and the examples per second, in batches of `batch`.
    """
    number = step = 0
    if checkpoint and checkpoint.exists():
        number, step, history = load_checkpoint(checkpoint, spec, network, optimiser, type(history))
    while step < total:
        start = time.perf_counter()
        number += 1
        count = segment(history, number, step)
        step += count
        taken = time.perf_counter() - start
        history.seconds += taken
        if watch:
            watch(history, count * batch / taken)
        if checkpoint:
            save_checkpoint(checkpoint, spec, network, optimiser, number, step, history)
    return history


def check_data(spec: RunSpec, tensors: Tensors) -> None:
    """Raise UserError unless these are the data of the specification."""
    if tensors.identity != spec.data:
        raise UserError(f"the run is specified for data {spec.data!r}, but {tensors.identity!r} was given")

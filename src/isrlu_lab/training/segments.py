"""The loop of a training run in segments (epochs, or the steps between two evaluations), with a checkpoint after each.

The random numbers of a segment come from (seed, number of the segment). A run that resumes from its checkpoint ends
with the same bits as an uninterrupted one.
"""

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from isrlu_lab.errors import UserError
from isrlu_lab.training.checkpoint import Checkpoint
from isrlu_lab.training.run_spec import RunSpec
from isrlu_lab.training.tensors import Tensors


class TimedHistory(Protocol):
    """What a run records; `seconds` of training and testing, summed over resumed processes."""

    seconds: float


H = TypeVar("H", bound=TimedHistory)
Watch = Callable[[H, float], None]  # of the history so far and the examples per second


def train_in_segments(
    checkpoint: Checkpoint,
    history: H,
    segment: Callable[[H, int, int], int],
    *,
    total: int,
    batch: int,
    watch: Watch[H] | None,
) -> H:
    """Call segment(history, number, step) until `total` steps are done; it trains, records, and returns its steps.

    history: of a new run; if there is a checkpoint, its own takes its place.
    watch: called after each segment; its examples per second are in batches of `batch`.
    """
    number, step, history = checkpoint.load(history)
    while step < total:
        start = time.perf_counter()
        number += 1
        count = segment(history, number, step)
        step += count
        taken = time.perf_counter() - start
        history.seconds += taken
        if watch:
            watch(history, count * batch / taken)
        checkpoint.save(number, step, history)
    return history


def check_data(spec: RunSpec, tensors: Tensors) -> None:
    """Raise UserError unless these are the data of the specification."""
    if tensors.identity != spec.data:
        raise UserError(f"the run is specified for data {spec.data!r}, but {tensors.identity!r} was given")

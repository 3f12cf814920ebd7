"""The work of a worker process, for all engines: execute one specification and return its run."""

import ctypes
import dataclasses
import importlib
import math
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isrlu_lab import environment
from isrlu_lab.errors import UserError
from isrlu_lab.training.checkpoint import CannotSave, DamagedCheckpoint
from isrlu_lab.training.run_spec import RunSpec
from isrlu_lab.training.run_store import Run
from isrlu_lab.training.tensors import Tensors

TRIES = 3  # attempts at a run whose worker dies
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of malloc.h


@dataclasses.dataclass(frozen=True)
class Progress:
    """Progress of a run, reported whenever its training loss is recorded."""

    spec: RunSpec
    share: float  # finished, 0 to 1
    rate: float  # images or sequences per second
    text: str

    @property
    def line(self) -> str:
        return f"{self.spec.label}, seed {self.spec.seed}: {self.text}, {self.rate:,.0f}/s"


class Diverged(Exception):
    """A number of a run (a loss, a mean activation) is NaN or infinite; `history` ends there."""

    def __init__(self, what: str, value: float, step: int, history: Any) -> None:
        super().__init__(f"the {what} is {value} at step {step}")
        self.history = history


def check_finite(history: Any, step: int, numbers: Mapping[str, float]) -> None:
    """Raise Diverged for the first of the named numbers that is NaN or infinite."""
    for what, value in numbers.items():
        if not math.isfinite(value):
            raise Diverged(what, value, step, history)


def set_up_worker(threads: int) -> None:
    """Prepare this process for training: the number of threads, and an allocator that keeps freed memory."""
    torch.set_num_threads(threads)
    keep_memory()


def keep_memory() -> None:
    """Make glibc keep freed memory: each training step allocates it again, and page faults are slow."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if platform.system() == "Linux" else None
    if mallopt:  # musl has no mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def execute(
    spec: RunSpec, tensors: Tensors, checkpoints: Path | None, tell: Callable[[Progress], None] = lambda _: None
) -> Run:
    """Train `spec`, from its checkpoint if there is one. A run that diverges or fails is returned with that status.

    A damaged checkpoint is deleted and the run starts again. Raises CannotSave. `checkpoints`: None keeps none.
    """
    trainer = importlib.import_module(spec.trainer)

    def watch(*seen: Any) -> None:
        tell(Progress(spec, *trainer.progress(spec, *seen)))

    captured = {**environment.capture(), "threads": torch.get_num_threads()}
    checkpoint = checkpoint_path(checkpoints, spec) if checkpoints else None
    try:
        history = trainer.train(spec, tensors, checkpoint=checkpoint, watch=watch)
    except Diverged as error:
        return Run(spec, "diverged", str(error), {"history": dataclasses.asdict(error.history)}, captured)
    except CannotSave:
        raise
    except DamagedCheckpoint:
        assert checkpoint  # it has been read
        checkpoint.unlink()
        return execute(spec, tensors, checkpoints, tell)
    except Exception as error:  # one run that fails must not stop the others
        return Run(spec, "crashed", reason_of(error), environment=captured)
    return Run(spec, "done", "", {**trainer.summary(history), "history": dataclasses.asdict(history)}, captured)


def reason_of(error: BaseException) -> str:
    """The reason of a failure in one line."""
    name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
    return name + str(error).partition("\n")[0]


def seed_of(*parts: int) -> int:
    """A seed derived from these numbers; trailing zeros do not change it."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> 1)


def checkpoint_path(folder: Path, spec: RunSpec) -> Path:
    """The file of the run's checkpoint; it is removed when the result is stored."""
    return folder / f"{spec.hash}.pt"


def crashed_run(spec: RunSpec, reason: str) -> Run:
    """The record of a run whose worker died at every attempt."""
    return Run(spec, "crashed", f"{reason}, {TRIES} times", environment=environment.capture())

"""A kind of training run as a contributor would add it: this module, and one line in the registry of kinds."""

import dataclasses
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch

from isrlu_lab.training.checkpoint import Checkpoint
from isrlu_lab.training.run_spec import Number, RunSpec

LINE = "toy_kind:ToySpec"  # in the registry


@dataclass(frozen=True, kw_only=True)
class ToySpec(RunSpec):
    """Fits a line through a point."""

    kind: ClassVar[str] = "toy"
    trainer: ClassVar[str] = "toy_kind"
    numbers: ClassVar[tuple[Number, ...]] = (Number("wobble", "wobble, mm", 1), Number("seconds"))

    slope: float = 2.0
    laps: int = 3

    @property
    def label(self) -> str:
        return f"slope {self.slope}"

    @property
    def network(self) -> str:
        return "line"

    @property
    def duration(self) -> str:
        return f"{self.laps} laps"


@dataclass
class History:
    error: list[float] = field(default_factory=list)
    resumed: int = 0


def train(spec: ToySpec, tensors: object, *, checkpoint: Path | None = None, watch: Any = None) -> History:
    network = torch.nn.Linear(1, 1)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    kept = Checkpoint(checkpoint, spec, network, optimiser)
    lap, _, history = kept.load(History())
    history.resumed = lap
    while lap < spec.laps:
        lap += 1
        history.error.append(1.0 / lap)
        watch(history, 1.0)
        kept.save(lap, lap, history)
    return history


def summary(history: History) -> dict[str, float]:
    return {"wobble": 10 * history.error[-1], "seconds": time.process_time()}


def progress(spec: ToySpec, history: History, rate: float) -> tuple[float, float, str]:
    return len(history.error) / spec.laps, rate, f"lap {len(history.error)}"


def specs() -> list[ToySpec]:
    return [dataclasses.replace(ToySpec(data="digits"), seed=seed) for seed in range(3)]

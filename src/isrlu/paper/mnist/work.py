"""What a worker of any engine does: execute one specification and say how it went."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import torch

from isrlu import environment
from isrlu.paper.mnist.spec import Spec
from isrlu.paper.mnist.store import Run
from isrlu.paper.mnist.train import Arrays, Diverged, History, summary, train

TRIES = 3  # of a run whose worker died


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run is: after a look at the test set."""

    spec: Spec
    step: int
    epoch: int
    loss: float
    accuracy: float
    rate: float  # images per second

    @property
    def line(self) -> str:
        return (
            f"{self.spec.label}, seed {self.spec.seed}: epoch {self.epoch}/{self.spec.epochs}, "
            f"loss {self.loss:.4f}, test {self.accuracy:.2f} %, {self.rate:,.0f} images/s"
        )


def execute(spec: Spec, arrays: Arrays, checkpoints: Path, tell: Callable[[Progress], None] = lambda _: None) -> Run:
    """Train `spec`, from its checkpoint if there is one; a run that diverges or fails is returned as such."""

    def watch(epoch: int, history: History, rate: float) -> None:
        loss, accuracy = history.train_loss[-1], history.test_accuracy[-1]
        tell(Progress(spec, history.test_steps[-1], epoch, loss, accuracy, rate))

    captured = {**environment.capture(), "threads": torch.get_num_threads()}
    try:
        history = train(spec, arrays, checkpoint=checkpoint_path(checkpoints, spec), watch=watch)
    except Diverged as error:
        return Run(spec, "diverged", str(error), {"history": dataclasses.asdict(error.history)}, captured)
    except Exception as error:  # one run that fails must not stop the others
        name = "" if type(error).__name__ == "UserError" else f"{type(error).__name__}: "
        return Run(spec, "crashed", name + str(error).partition("\n")[0], environment=captured)
    return Run(spec, "done", "", {**summary(history), "history": dataclasses.asdict(history)}, captured)


def checkpoint_path(folder: Path, spec: Spec) -> Path:
    """Where the run's state is kept until its result is stored."""
    return folder / f"{spec.hash}.pt"


def lost(spec: Spec, reason: str) -> Run:
    """The record of a run whose worker died again and again."""
    return Run(spec, "crashed", f"{reason}, {TRIES} times", environment=environment.capture())

"""The specification of a training run of a recurrent network."""

from dataclasses import dataclass
from typing import ClassVar

from isrlu_lab.training.run_spec import Number, RunSpec

TASKS = {"rows": "images by rows", "adding": "adding problem"}
LAYERS = ("LSTM", "GRU")
GATES = {"isru": "ISRU", "exact": "sigmoid and tanh"}
MADE = "made"  # identity of data that is generated from the seed


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec(RunSpec):
    """One run: task, layer, gates, size, length, seed and data.

    >>> RecurrentSpec(task="adding", layer="GRU", hidden=64).label
    'adding problem, GRU, ISRU'
    """

    kind: ClassVar[str] = "rnn"
    trainer: ClassVar[str] = "isrlu_lab.training.recurrent.train_recurrent"
    numbers: ClassVar[tuple[Number, ...]] = (Number("final_score", "score", 4), Number("seconds"))

    task: str = "rows"
    layer: str = "LSTM"
    gates: str = "isru"
    hidden: int = 128
    steps: int = 6000
    interval: int = 300  # steps between two evaluations on the test set
    batch: int = 100
    rate: float = 1e-3  # Adam's
    length: int = 200  # of the adding problem's sequences

    def __post_init__(self) -> None:
        self.check_known(task=TASKS, layer=LAYERS, gates=GATES)
        self.check_least(hidden=1, steps=1, interval=1, batch=1, length=2, seed=0)
        if self.task == "adding":
            object.__setattr__(self, "data", MADE)

    @property
    def network(self) -> str:
        return f"{self.layer} ({self.hidden})"

    @property
    def label(self) -> str:
        return f"{TASKS[self.task]}, {self.layer}, {GATES[self.gates]}"

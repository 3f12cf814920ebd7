"""The specification of a training run on CIFAR-10."""

from dataclasses import dataclass
from typing import ClassVar

from isrlu_lab.training.run_spec import Number, RunSpec, check

ACTIVATIONS = {  # name in a specification -> name in tables
    "relu": "ReLU",
    "elu": "ELU",
    "isrlu": "ISRLU α=1",
    "isrlu3": "ISRLU α=3",
    "learned": "ISRLU, learned α",
    "sisrlu": "SISRLU",
    "relu-bn": "ReLU with batch normalisation",
}


@dataclass(frozen=True, kw_only=True)
class CifarSpec(RunSpec):
    """One run: activation, share of the width, learning rate, length, seed and data.

    >>> CifarSpec(activation="isrlu3").label
    'ISRLU α=3'
    """

    kind: ClassVar[str] = "cifar"
    trainer: ClassVar[str] = "isrlu_lab.training.cifar.train_cifar"
    numbers: ClassVar[tuple[Number, ...]] = (
        Number("final_accuracy", "accuracy", 2),
        Number("best_accuracy"),
        Number("final_loss", "training loss", 4),
        Number("step_milliseconds", "ms per step", 1),
        Number("seconds"),
    )

    activation: str = "isrlu"
    width: float = 0.25  # share of the original's channels in each layer
    rate: float = 0.01  # of SGD with momentum, falling to 0 along a cosine
    epochs: int = 10
    steps: int = 0  # stop after so many steps; 0: after the last epoch
    batch: int = 100
    data: str = "cifar10"

    def __post_init__(self) -> None:
        self.check_known(activation=ACTIVATIONS)
        check(0 < self.width <= 1, f"width is a share of the original's, in (0, 1], got {self.width!r}")
        self.check_least(epochs=1, batch=1, steps=0, seed=0)
        check(self.rate > 0, f"rate must be above 0, got {self.rate!r}")

    @property
    def network(self) -> str:
        return f"11 layers, {self.width:g} of the width"

    @property
    def label(self) -> str:
        return ACTIVATIONS[self.activation]

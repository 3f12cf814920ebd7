"""The specification of a training run of a deep fully connected network."""

from dataclasses import dataclass
from typing import ClassVar

from isrlu_lab.training.run_spec import Number, RunSpec, check

ACTIVATIONS = {  # name in a specification -> name in tables
    "relu": "ReLU",
    "elu": "ELU",
    "selu": "SELU",
    "isrlu": "ISRLU α=1",
    "isrlu3": "ISRLU α=3",
    "sisrlu": "SISRLU",
    "centred": "centred ISRLU",
}

# What is recorded of each hidden layer: mean and variance of its outputs, norm of the loss's gradient for its weights.
SIGNALS = ("mean", "variance", "gradient")


@dataclass(frozen=True, kw_only=True)
class DepthSpec(RunSpec):
    """One run: activation, depth, learning rate, length, seed and data.

    >>> DepthSpec(activation="sisrlu", depth=64).label
    'SISRLU, 64 layers, rate 0.01'
    """

    kind: ClassVar[str] = "depth"
    trainer: ClassVar[str] = "isrlu_lab.training.depth.train_depth"
    numbers: ClassVar[tuple[Number, ...]] = (
        Number("final_accuracy", "accuracy", 2),
        Number("final_loss", "training loss", 4),
        Number("seconds"),
    )

    activation: str = "isrlu"
    depth: int = 8  # hidden layers
    width: int = 128  # units in each of them
    rate: float = 0.01  # of SGD with momentum
    epochs: int = 5
    steps: int = 0  # stop after so many steps; 0: after the last epoch
    batch: int = 100
    held_out: int = 0  # images at the end of the training set that are not trained on but tested on; 0: the test set

    def __post_init__(self) -> None:
        known = ", ".join(ACTIVATIONS)
        check(self.activation in ACTIVATIONS, f"unknown activation {self.activation!r}: known are {known}")
        for name in ("depth", "width", "epochs", "batch"):
            check(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)!r}")
        for name in ("steps", "held_out", "seed"):
            check(getattr(self, name) >= 0, f"{name} must be at least 0, got {getattr(self, name)!r}")
        check(self.rate > 0, f"rate must be above 0, got {self.rate!r}")

    @property
    def name(self) -> str:
        """The activation as tables call it."""
        return ACTIVATIONS[self.activation]

    @property
    def network(self) -> str:
        return f"{self.depth} x {self.width}"

    @property
    def duration(self) -> str:
        return f"{self.steps} steps" if self.steps else f"{self.epochs} epochs"

    @property
    def label(self) -> str:
        return f"{self.name}, {self.depth} layers, rate {self.rate:g}"

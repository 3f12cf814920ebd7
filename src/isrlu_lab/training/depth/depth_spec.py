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
        self.check_known(activation=ACTIVATIONS)
        self.check_least(depth=1, width=1, epochs=1, batch=1, steps=0, held_out=0, seed=0)
        check(self.rate > 0, f"rate must be above 0, got {self.rate!r}")

    @property
    def name(self) -> str:
        """The activation as tables call it."""
        return ACTIVATIONS[self.activation]

    @property
    def network(self) -> str:
        return f"{self.depth} x {self.width}"

    @property
    def label(self) -> str:
        return f"{self.name}, {self.depth} layers, rate {self.rate:g}"

"""The specification of a training run of the paper's networks."""

from dataclasses import dataclass
from typing import ClassVar

from isrlu._checks import METHODS, check_learnable_alpha
from isrlu_lab.errors import UserError
from isrlu_lab.training.run_spec import Number, RunSpec, check

ACTIVATIONS = ("isrlu", "elu", "relu")
ARCHITECTURES = {1: 1176, 2: 512}  # the paper's width of the dense layer


@dataclass(frozen=True, kw_only=True)
class MnistSpec(RunSpec):
    """One run: network, activation, dropout, length, seed and data. The number of threads is not part of it.

    >>> MnistSpec(activation="isrlu", alpha=3.0, pkeep=0.25, seed=1).label
    'ISRLU α=3.0, pkeep 0.25'
    >>> MnistSpec(activation="swish")
    Traceback (most recent call last):
        ...
    isrlu_lab.errors.UserError: unknown activation 'swish': known are isrlu, elu, relu
    """

    trainer: ClassVar[str] = "isrlu_lab.training.mnist.train_mnist"
    numbers: ClassVar[tuple[Number, ...]] = (
        Number("best_accuracy", "accuracy", 2),
        Number("final_accuracy"),
        Number("final_loss", "loss x 100", 3),
        Number("seconds"),
    )

    architecture: int = 1
    activation: str = "isrlu"
    alpha: float = 1.0  # of ISRLU and ELU; ReLU has none
    learnable: bool = False  # ISRLU's alpha starts at `alpha` and is learned, one per layer
    method: str = "full"  # ISRLU's way to the inverse square root
    width: int = 0  # of the dense layer; 0: the paper's
    pkeep: float = 0.4  # probability of keeping a unit of the dense layer
    pkeep_conv: float = 1.0  # the same after each max-pool, in architecture 2
    epochs: int = 17
    steps: int = 0  # stop after so many steps; 0: after the last epoch
    evaluations: int = 1  # on the test set in an epoch, evenly spaced, the last at its end
    batch: int = 100

    def __post_init__(self) -> None:
        check(self.architecture in ARCHITECTURES, f"unknown architecture {self.architecture!r}: the paper has 1 and 2")
        self.check_known(activation=ACTIVATIONS, method=METHODS)
        try:
            object.__setattr__(self, "alpha", check_learnable_alpha(self.alpha, self.learnable))
        except (TypeError, ValueError) as error:
            raise UserError(str(error)) from None
        only = "only isrlu has one" if self.activation != "isrlu" else ""
        check(not (only and self.learnable), f"{self.activation} has no learnable alpha: {only}")
        check(not (only and self.method != "full"), f"{self.activation} has no method {self.method}: {only}")
        for name in ("pkeep", "pkeep_conv"):
            value = float(getattr(self, name))  # 1 and 1.0 are one run
            object.__setattr__(self, name, value)
            check(0.0 < value <= 1.0, f"{name} is the probability of keeping a unit, in (0, 1], got {value!r}")
        check(self.architecture == 2 or self.pkeep_conv == 1.0, "architecture 1 has no dropout after convolutions")
        self.check_least(width=0, epochs=1, steps=0, evaluations=1, batch=1, seed=0)
        object.__setattr__(self, "width", self.width or ARCHITECTURES[self.architecture])
        if self.activation == "relu":
            object.__setattr__(self, "alpha", 1.0)  # two values would make two runs of one

    @property
    def name(self) -> str:
        """The activation as the tables call it."""
        titles = {"isrlu": "ISRLU", "elu": "ELU", "relu": "ReLU"}
        alpha = {"isrlu": f" α={self.alpha}", "elu": "" if self.alpha == 1.0 else f" α={self.alpha}", "relu": ""}
        method = "" if self.method == "full" else f" ({self.method})"
        learned = " learned" if self.learnable else ""
        return f"{titles[self.activation]}{alpha[self.activation]}{learned}{method}"

    @property
    def network(self) -> str:
        return f"{self.architecture} ({self.width})"

    @property
    def label(self) -> str:
        """Activation, dropout, and a width that is not the paper's, for progress lines and plots."""
        conv = f"{self.pkeep_conv} conv, " if self.architecture == 2 else ""
        width = "" if self.width == ARCHITECTURES[self.architecture] else f", {self.width} units"
        return f"{self.name}, pkeep {conv}{self.pkeep}{width}"

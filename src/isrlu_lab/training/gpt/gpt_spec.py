"""The specifications of the training runs of a character-level GPT, and of swapping the norms of a trained one."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from isrlu_lab.training.run_spec import Number, RunSpec, check

NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "dyt": "DyT", "derf": "Derf", "dyisru": "DyISRU"}
ELEMENTWISE = ("dyt", "derf", "dyisru")  # they have an alpha at the start
STARTS = {  # of the weights
    "nanogpt": "deviation 0.02",
    "unit": "deviation 1/sqrt(width), and the embedding times a learned number that starts at sqrt(width)",
}
SWAPS = {"fit": "DyISRU with fit", "plain": "DyISRU without fit", "none": "LayerNorm kept"}


@dataclass(frozen=True, kw_only=True)
class GptSpec(RunSpec):
    """One run: norm, learning rate, size, length, seed and text. The defaults are nanoGPT's for a CPU.

    >>> GptSpec(norm="dyisru", rate=2e-3, alpha=1.0).label
    'DyISRU, rate 0.002, alpha 1'
    """

    kind: ClassVar[str] = "gpt"
    trainer: ClassVar[str] = "isrlu_lab.training.gpt.train_gpt"
    numbers: ClassVar[tuple[Number, ...]] = (Number("final_loss", "validation loss", 4), Number("seconds"))

    data: str = "tinyshakespeare"
    norm: str = "layernorm"
    alpha: float = 0.5  # at the start; 0 where the norm has none
    start: str = "nanogpt"
    rate: float = 1e-3  # AdamW's, after the warm-up; it ends at a tenth of it
    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 64
    batch: int = 12
    steps: int = 2000
    warmup: int = 100
    interval: int = 100  # steps between two evaluations on the validation text

    def __post_init__(self) -> None:
        self.check_known(norm=NORMS, start=STARTS)
        self.check_least(layers=1, heads=1, width=1, context=1, batch=1, steps=1, interval=1, warmup=0, seed=0)
        check(self.width % self.heads == 0, f"width {self.width} is not a multiple of the {self.heads} heads")
        check(0 < self.rate < 1, f"rate must be between 0 and 1, got {self.rate!r}")
        if self.norm not in ELEMENTWISE:
            object.__setattr__(self, "alpha", 0.0)  # one identity for one network
        else:
            check(0 < self.alpha < float("inf"), f"alpha must be positive and finite, got {self.alpha!r}")

    @property
    def network(self) -> str:
        return f"GPT ({self.layers} layers of {self.width})"

    @property
    def choice(self) -> str:
        """What is chosen for each norm: "unit start, rate 0.001, alpha 0.5"."""
        start = "" if self.start == "nanogpt" else f"{self.start} start, "
        return f"{start}rate {self.rate:g}" + (f", alpha {self.alpha:g}" if self.norm in ELEMENTWISE else "")

    @property
    def label(self) -> str:
        return f"{NORMS[self.norm]}, {self.choice}"


@dataclass(frozen=True, kw_only=True)
class SwapSpec(GptSpec):
    """One run that takes the trained LayerNorm network of these fields, swaps its norms, and trains it further."""

    kind: ClassVar[str] = "gpt-swap"
    trainer: ClassVar[str] = "isrlu_lab.training.gpt.train_swap"

    swap: str = "fit"
    further: int = 200  # steps after the swap
    further_rate: float = 3e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_known(swap=SWAPS)
        check(self.norm == "layernorm", f"a swap starts from layernorm, got {self.norm!r}")
        self.check_least(further=4)
        check(0 < self.further_rate < 1, f"further_rate must be between 0 and 1, got {self.further_rate!r}")

    @property
    def parent(self) -> GptSpec:
        """The run that trained the network."""
        return GptSpec(**{each.name: getattr(self, each.name) for each in dataclasses.fields(GptSpec)})

    @property
    def duration(self) -> str:
        return f"{self.steps} + {self.further} steps"

    @property
    def label(self) -> str:
        return f"{SWAPS[self.swap]}, after {super().label}"

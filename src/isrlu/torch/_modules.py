"""`ISRLU`, `ISRU`, `ISRUSigmoid`: the functions as modules, with a fixed or a learnable alpha."""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from isrlu._checks import check_learnable_alpha, check_method
from isrlu.torch import _functional


class _WithAlpha(nn.Module):
    """An activation with an alpha.

    A learnable alpha is kept as its logarithm, so that it can't leave the positive numbers, and so that its gradient is
    of the size of the output's whatever alpha is: d f / d log(alpha) = -f (alpha f^2) / 2, where alpha f^2 < 1. (The
    softplus would leave -f^3 / 2 for large alpha, which vanishes as alpha^(-3/2).)
    """

    inplace: bool
    method: str

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        learnable: bool = False,
        num_parameters: int = 1,
        inplace: bool = False,
        method: str = "full",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        value = check_learnable_alpha(alpha, learnable, num_parameters)
        self.learnable = learnable
        self.inplace = inplace
        self.method = check_method(method)
        if learnable:
            self.log_alpha = nn.Parameter(torch.full((num_parameters,), math.log(value), device=device, dtype=dtype))
        else:
            self.register_parameter("log_alpha", None)
        self._fixed = value

    @property
    def alpha(self) -> float | Tensor:
        """The number, or the learned values: one, or one per channel, never less precise than float32."""
        if (
            not self.learnable
        ):  # asked first: a parameter is found by Module.__getattr__, which takes as long as a small ReLU
            return self._fixed
        return _functional.exp_alpha(self.log_alpha)

    @alpha.setter
    def alpha(self, value: float) -> None:
        self._fixed = check_learnable_alpha(value, self.learnable)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set a learnable alpha to the number that was given last."""
        if self.learnable:
            with torch.no_grad():
                self.log_alpha.fill_(math.log(self._fixed))

    def extra_repr(self) -> str:
        parts = [f"alpha={self._fixed}"]
        if self.learnable:
            known = type(self.log_alpha) in (nn.Parameter, Tensor) and not self.log_alpha.is_meta  # no fake tensor
            values = cast(Tensor, self.alpha).tolist() if known else []
            if values:
                low, high = f"{min(values):.4g}", f"{max(values):.4g}"
                parts = [f"alpha={low}" if low == high else f"alpha={low}..{high}"]
            parts.append(f"learnable=True, num_parameters={self.log_alpha.numel()}")
        return ", ".join(parts + _common_repr(self))


class ISRLU(_WithAlpha):
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0.

    Args:
        alpha: a number >= 0; the negative side saturates at -1/sqrt(alpha).
        learnable: learn alpha, starting from the given value (above 0), which stays positive.
        num_parameters: 1 learnable alpha for all, or one per channel (dim 1).
        inplace: write into the input; backward needs the output alone.
        method: the way to the inverse square root on CPU.
        device, dtype: of the parameter, if there is one.

    >>> ISRLU(3.0, inplace=True)
    ISRLU(alpha=3.0, inplace=True)
    """

    def forward(self, x: Tensor) -> Tensor:
        return _functional.isrlu(x, self.alpha, self.inplace, self.method)


class ISRU(_WithAlpha):
    """x / sqrt(1 + alpha x^2), the stand-in for tanh; arguments as of `ISRLU`.

    >>> ISRU(learnable=True, num_parameters=8)
    ISRU(alpha=1, learnable=True, num_parameters=8)
    """

    def forward(self, x: Tensor) -> Tensor:
        return _functional.isru(x, self.alpha, self.inplace, self.method)


class ISRUSigmoid(nn.Module):
    """(1 + isru(x/2)) / 2, the stand-in for the logistic sigmoid.

    >>> ISRUSigmoid(method="approx")
    ISRUSigmoid(method=approx)
    """

    def __init__(self, inplace: bool = False, method: str = "full") -> None:
        super().__init__()
        self.inplace = inplace
        self.method = check_method(method)

    def forward(self, x: Tensor) -> Tensor:
        return _functional.isru_sigmoid(x, self.inplace, self.method)

    def extra_repr(self) -> str:
        return ", ".join(_common_repr(self))


def _common_repr(module: Any) -> list[str]:
    parts = ["inplace=True"] if module.inplace else []
    return parts + ([f"method={module.method}"] if module.method != "full" else [])

"""`ISRLU`, `ISRU`, `ISRUSigmoid`, `SISRLU`: the functions as modules, with a fixed or a learnable alpha."""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from isrlu._checks import check_alpha, check_learnable_alpha, check_method
from isrlu.signal import SISRLU_ALPHA
from isrlu.torch import _functional


class _WithAlpha(nn.Module):
    """An activation with alpha.

    A learnable alpha is stored as its logarithm, which keeps it positive. The gradient then has the output's magnitude
    for every alpha: d f / d log(alpha) = -f (alpha f^2) / 2, where alpha f^2 < 1. With a softplus it would be -f^3 / 2
    for large alpha, which vanishes as alpha^(-3/2).
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
        """The number, or the learned values: one, or one per channel, in float32 or float64."""
        if not self.learnable:  # before log_alpha, because Module.__getattr__ takes as long as a small ReLU
            return self._fixed
        return _functional.exp_alpha(self.log_alpha)

    @alpha.setter
    def alpha(self, value: float) -> None:
        self._fixed = check_learnable_alpha(value, self.learnable)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset a learnable alpha to the last number that was set."""
        if self.learnable:
            with torch.no_grad():
                self.log_alpha.fill_(math.log(self._fixed))

    def extra_repr(self) -> str:
        parts = [f"alpha={self._fixed}"]
        if self.learnable:
            known = type(self.log_alpha) in (nn.Parameter, Tensor) and not self.log_alpha.is_meta  # not a fake tensor
            values = cast(Tensor, self.alpha).tolist() if known else []
            if values:
                low, high = f"{min(values):.4g}", f"{max(values):.4g}"
                parts = [f"alpha={low}" if low == high else f"alpha={low}..{high}"]
            parts.append(f"learnable=True, num_parameters={self.log_alpha.numel()}")
        return ", ".join(parts + _common_repr(self))


class ISRLU(_WithAlpha):
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0.

    Args:
        alpha: a number >= 0. For negative x the function saturates at -1/sqrt(alpha).
        learnable: learn alpha, starting from the given value, which must be > 0. It stays positive.
        num_parameters: 1 for a single learnable alpha, or the size of dim 1 for one per channel.
        inplace: write into the input. The backward pass needs only the output.
        method: how the inverse square root is computed on CPU.
        device: of the parameter, if alpha is learnable.
        dtype: of the parameter, if alpha is learnable.

    >>> ISRLU(3.0, inplace=True)
    ISRLU(alpha=3.0, inplace=True)
    """

    def forward(self, x: Tensor) -> Tensor:
        return _functional.isrlu(x, self.alpha, self.inplace, self.method)


class ISRU(_WithAlpha):
    """x / sqrt(1 + alpha x^2), a replacement for tanh; arguments as in `ISRLU`.

    >>> ISRU(learnable=True, num_parameters=8)
    ISRU(alpha=1, learnable=True, num_parameters=8)
    """

    def forward(self, x: Tensor) -> Tensor:
        return _functional.isru(x, self.alpha, self.inplace, self.method)


class ISRUSigmoid(nn.Module):
    """(1 + isru(x/2)) / 2, a replacement for the logistic sigmoid.

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


class SISRLU(nn.Module):
    """lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU.

    lambda and beta follow from alpha: for a standard normal x the result has mean 0 and variance 1. Initialise the
    weights with variance 1 / fan_in (`nn.init.kaiming_normal_(w, nonlinearity="linear")`) and use `SISRLUDropout`.
    alpha is not learnable: beta and lambda would have to follow it in every step.

    Args:
        alpha: a number >= 0. With the default, SISRLU saturates at -1.7581, where SELU does.
        inplace: as in `ISRLU`.
        method: as in `ISRLU`.

    >>> SISRLU()
    SISRLU(alpha=0.70832)
    """

    def __init__(self, alpha: float = SISRLU_ALPHA, *, inplace: bool = False, method: str = "full") -> None:
        super().__init__()
        self.alpha = check_alpha(alpha)
        self.inplace = inplace
        self.method = check_method(method)

    def forward(self, x: Tensor) -> Tensor:
        return _functional.sisrlu(x, self.alpha, self.inplace, self.method)

    def extra_repr(self) -> str:
        return ", ".join([f"alpha={self.alpha}", *_common_repr(self)])


def _common_repr(module: Any) -> list[str]:
    parts = ["inplace=True"] if module.inplace else []
    return parts + ([f"method={module.method}"] if module.method != "full" else [])

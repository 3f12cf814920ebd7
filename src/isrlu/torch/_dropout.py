"""`SISRLUDropout`, `FeatureSISRLUDropout`: dropout that keeps mean 0 and variance 1, as nn.AlphaDropout does for SELU.

A dropped element becomes s = -lambda beta / sqrt(alpha), the value at which sisrlu saturates. If x has mean 0 and
variance 1 and each element is kept with probability q, the result has the mean (1 - q) s and the variance
q + q (1 - q) s^2. The line a x + b brings them back to 0 and 1.
"""

import math

import torch
from torch import Tensor, nn

from isrlu._checks import check_alpha
from isrlu.signal import SISRLU_ALPHA, sisrlu_constants


def sisrlu_dropout(
    x: Tensor, p: float = 0.5, alpha: float = SISRLU_ALPHA, training: bool = True, inplace: bool = False
) -> Tensor:
    """Set each element to the saturation of `sisrlu` with probability p, then restore mean 0 and variance 1.

    Args:
        x: outputs of `sisrlu` with the same alpha.
        p: probability of dropping an element, 0 <= p < 1.
        alpha: a number > 0.
        training: if False, x is returned.
        inplace: write the result into x.

    >>> import torch
    >>> torch.manual_seed(0).initial_seed()
    0
    >>> y = sisrlu_dropout(torch.randn(1_000_000), p=0.2)
    >>> print(f"{abs(y.mean().item()):.2f} {y.var().item():.2f}")
    0.00 1.00
    """
    return _drop(x, x.shape, p, alpha, training, inplace)


def feature_sisrlu_dropout(
    x: Tensor, p: float = 0.5, alpha: float = SISRLU_ALPHA, training: bool = True, inplace: bool = False
) -> Tensor:
    """The same for whole channels: x has the shape [batch, channels, ...]."""
    if x.dim() < 2:
        raise ValueError(f"x must have the shape [batch, channels, ...], got {tuple(x.shape)}")
    return _drop(x, torch.Size((*x.shape[:2], *[1] * (x.dim() - 2))), p, alpha, training, inplace)


def _drop(x: Tensor, shape: torch.Size, p: float, alpha: float, training: bool, inplace: bool) -> Tensor:
    keep, dropped, scale, shift = _line(p, alpha)
    if not training or p == 0:
        return x
    kept = torch.rand(shape, device=x.device) < keep
    y = torch.where(kept, x * scale + shift, dropped).to(x.dtype)
    return x.copy_(y) if inplace else y


def _line(p: float, alpha: float) -> tuple[float, float, float, float]:
    """1 - p, the value of a dropped element, a and b."""
    if not 0 <= p < 1:
        raise ValueError(f"p must be a number with 0 <= p < 1, got {p!r}")
    if check_alpha(alpha) == 0:
        raise ValueError(f"alpha must be above 0, got {alpha!r}: with 0, sisrlu does not saturate")
    beta, lambda_ = sisrlu_constants(alpha)
    keep, saturation = 1 - p, -lambda_ * beta / math.sqrt(alpha)
    scale = 1 / math.sqrt(keep + keep * p * saturation * saturation)
    shift = -scale * p * saturation
    return keep, scale * saturation + shift, scale, shift


class SISRLUDropout(nn.Module):
    """`sisrlu_dropout` as a module. It is the identity in evaluation mode.

    >>> SISRLUDropout(0.1)
    SISRLUDropout(p=0.1, alpha=0.70832)
    """

    def __init__(self, p: float = 0.5, alpha: float = SISRLU_ALPHA, *, inplace: bool = False) -> None:
        super().__init__()
        _line(p, alpha)
        self.p, self.alpha, self.inplace = p, float(alpha), inplace

    def forward(self, x: Tensor) -> Tensor:
        return sisrlu_dropout(x, self.p, self.alpha, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class FeatureSISRLUDropout(SISRLUDropout):
    """`feature_sisrlu_dropout` as a module: drops whole channels."""

    def forward(self, x: Tensor) -> Tensor:
        return feature_sisrlu_dropout(x, self.p, self.alpha, self.training, self.inplace)

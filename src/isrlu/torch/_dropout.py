"""`SISRLUDropout`, `FeatureSISRLUDropout`: dropout that keeps mean 0 and variance 1, as nn.AlphaDropout for SELU."""

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function

from isrlu.signal import SISRLU_ALPHA, DropoutConstants, dropout_constants
from isrlu.torch import _formula, _functional, _private
from isrlu.torch._refuse import refuse


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
    if _functional._is_foreign(x):
        return handle_torch_function(sisrlu_dropout, (x,), x, p, alpha, training, inplace)
    _functional._check_input(x)
    return _drop(x, p, alpha, training, inplace)


def feature_sisrlu_dropout(
    x: Tensor, p: float = 0.5, alpha: float = SISRLU_ALPHA, training: bool = True, inplace: bool = False
) -> Tensor:
    """The same for whole channels: x has the shape [batch, channels, ...]."""
    if _functional._is_foreign(x):
        return handle_torch_function(feature_sisrlu_dropout, (x,), x, p, alpha, training, inplace)
    _functional._check_input(x)
    if x.dim() < 2:
        raise ValueError(f"x must have the shape [batch, channels, ...], got {tuple(x.shape)}")
    return _drop(x, p, alpha, training, inplace, mask=(*x.shape[:2], *[1] * (x.dim() - 2)))


def _drop(
    x: Tensor, p: float, alpha: float, training: bool, inplace: bool, mask: tuple[int, ...] | None = None
) -> Tensor:
    """mask: its shape, x's if None."""
    if torch.compiler.is_dynamo_compiling():
        p, alpha = (p * 1.0).__float__(), (alpha * 1.0).__float__()  # not float(): see sisrlu_scales
        if reason := _refusal(p, alpha):
            return refuse(x, reason)
        dropped, scale, shift = _traced_constants(p, alpha)
    else:
        dropped, scale, shift = dropout_constants(p, alpha)
    if not training or p == 0:
        return x
    if mask is None:
        uniform = torch.rand_like(x, dtype=torch.float32)  # the default dtype may be too coarse for p
    else:
        uniform = torch.rand(mask, dtype=torch.float32, device=x.device)
    y = torch.where(uniform >= p, _formula.compute(x) * scale + shift, dropped).to(x.dtype)
    return x.copy_(y) if inplace else y


@_private.constant_result
def _refusal(p: float, alpha: float) -> str:
    """The error of `dropout_constants`, or ""."""
    try:
        dropout_constants(p, alpha)
    except ValueError as error:
        return str(error)
    return ""


@_private.constant_result
def _traced_constants(p: float, alpha: float) -> DropoutConstants:
    return dropout_constants(p, alpha)


class SISRLUDropout(nn.Module):
    """`sisrlu_dropout` as a module. It is the identity in evaluation mode.

    >>> SISRLUDropout(0.1)
    SISRLUDropout(p=0.1, alpha=0.70832)
    """

    def __init__(self, p: float = 0.5, alpha: float = SISRLU_ALPHA, *, inplace: bool = False) -> None:
        super().__init__()
        dropout_constants(p, alpha)
        self.p, self.alpha, self.inplace = float(p), float(alpha), inplace

    def forward(self, x: Tensor) -> Tensor:
        return sisrlu_dropout(x, self.p, self.alpha, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class FeatureSISRLUDropout(SISRLUDropout):
    """`feature_sisrlu_dropout` as a module: drops whole channels."""

    def forward(self, x: Tensor) -> Tensor:
        return feature_sisrlu_dropout(x, self.p, self.alpha, self.training, self.inplace)

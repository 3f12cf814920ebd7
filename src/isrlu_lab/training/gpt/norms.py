"""The five norm layers. DyT and Derf are written in torch operations, as their authors have them."""

import torch
from torch import Tensor, nn


class DyT(nn.Module):
    """weight tanh(alpha x) + bias: Zhu et al., 2025, "Transformers without Normalization"."""

    def __init__(self, width: int, alpha: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class Derf(nn.Module):
    """weight erf(alpha x + shift) + bias: Chen et al., 2025, "Stronger Normalization-Free Transformers"."""

    def __init__(self, width: int, alpha: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))
        self.shift = nn.Parameter(torch.zeros(1))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(self.alpha * x + self.shift) * self.weight + self.bias


def make_norm(name: str, width: int, alpha: float) -> nn.Module:
    """The norm layer of this name for vectors of `width`; `alpha` is the start of an element-wise one."""
    if name == "layernorm":
        return nn.LayerNorm(width)
    if name == "rmsnorm":
        return nn.RMSNorm(width)
    if name == "dyt":
        return DyT(width, alpha)
    if name == "derf":
        return Derf(width, alpha)
    if name == "dyisru":
        from isrlu.torch import DyISRU

        return DyISRU(width, alpha=alpha)
    raise ValueError(f"unknown norm {name!r}")

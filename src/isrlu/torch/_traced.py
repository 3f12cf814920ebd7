"""The functions for torch.compile and the ONNX exporter: fewer operators than `_formula`, and the paper's derivatives.

Autograd would differentiate every factor. Given the derivatives r^3 and -f^3 / 2, r = 1 / sqrt(1 + alpha x^2), a
compiled graph has one root and one division in each direction, and errors like those of the kernels. Function
transforms and double backward need derivatives of every order, so they use `_formula`.

Nothing here compares x with another tensor. Inductor treats such a comparison as a reduction and keeps its truth values
for the backward pass. On CPU it packs and unpacks them one by one, which takes 20 times as long as the whole function.
"""

import math
from typing import Any

import torch
from torch import Tensor

from isrlu._formula import far, inverse_root, isru_sigmoid
from isrlu.torch._formula import compute, exact, is_zero, sisrlu_scales


def value(name: str, x: Tensor, alpha: float | Tensor) -> Tensor:
    """Apply the function of this name. alpha is a number or broadcasts against x; isru_sigmoid ignores it."""
    wide = compute(x)
    if name == "isru_sigmoid":
        return _sigmoid(wide).to(x.dtype)
    if name == "sisrlu" and not isinstance(alpha, Tensor):
        return _sisrlu(wide, alpha, *sisrlu_scales(alpha)).to(x.dtype)
    return (_isrlu if name == "isrlu" else _isru)(wide, _like(alpha, wide)).to(x.dtype)


def differentiable(name: str, x: Tensor, alpha: float | Tensor) -> Tensor:
    """The same, differentiable in x and alpha."""
    wide = compute(x)
    if name == "isru_sigmoid":
        return Sigmoid.apply(wide).to(x.dtype)
    if name == "sisrlu" and not isinstance(alpha, Tensor):
        return SelfNormalizing.apply(wide, alpha, *sisrlu_scales(alpha)).to(x.dtype)
    return WithAlpha.apply(wide, _like(alpha, wide), name == "isrlu").to(x.dtype)


class WithAlpha(torch.autograd.Function):
    """f(x, alpha) with df/dx = r^3 and, if alpha is a tensor, df/dalpha = -f^3 / 2. x is float32 or float64."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float | Tensor, linear: bool) -> Tensor:
        learned = isinstance(alpha, Tensor)
        ctx.save_for_backward(x, *([alpha] if learned else []))
        ctx.constants = None if learned else alpha, linear
        return (_isrlu if linear else _isru)(x, alpha)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *learned = ctx.saved_tensors
        number, linear = ctx.constants
        alpha = learned[0] if learned else number
        top = torch.finfo(x.dtype).max
        r = inverse_root(torch, x.clamp(-top, top), alpha)  # infinity * (alpha = 0) would be NaN
        slope = torch.where(x >= 0, 1.0, r * r * r) if linear else r * r * r
        if not learned:
            return grad * slope, None, None
        f = _isru(x, alpha)
        by_alpha = torch.where(x >= 0, 0.0, -0.5 * f * f * f) if linear else -0.5 * f * f * f
        return grad * slope, (grad * by_alpha).sum_to_size(alpha.shape), None


class SelfNormalizing(torch.autograd.Function):
    """sisrlu(x) with the derivative lambda for x >= 0, lambda beta r^3 for x < 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float, positive: float, negative: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.constants = alpha, positive, negative
        return _sisrlu(x, alpha, positive, negative)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        alpha, positive, negative = ctx.constants
        top = torch.finfo(x.dtype).max
        r = inverse_root(torch, x.clamp(-top, top), alpha)
        slope = negative * r * r * r  # in this order: r^3 alone may underflow
        return grad * torch.where(x >= 0, positive, slope), None, None, None


class Sigmoid(torch.autograd.Function):
    """isru_sigmoid(x) with the derivative r^3 / 4, r = 1 / sqrt(1 + x^2/4)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        r = inverse_root(torch, x * 0.5, 1.0)
        return grad * (0.25 * r * r * r)


def _isrlu(x: Tensor, alpha: float | Tensor) -> Tensor:
    """x for x >= 0, else isru(x): the larger of the two, because the root is >= 1."""
    return torch.maximum(x, _isru(x, alpha))


def _sisrlu(x: Tensor, alpha: float, positive: float, negative: float) -> Tensor:
    y = _isrlu(x, alpha)
    # where() of two numbers would be float32
    return torch.where(x >= 0, y * exact(positive, x.dtype), y * exact(negative, x.dtype))


def _isru(x: Tensor, alpha: float | Tensor) -> Tensor:
    """x / sqrt(1 + alpha x^2). x is clamped to +-far / sqrt(alpha), where f is saturated and alpha x^2 is finite."""
    largest = torch.finfo(x.dtype).max
    if not isinstance(alpha, Tensor):
        if is_zero(alpha, x.dtype):
            return x.clone()
        limit: Any = exact(min(_far(x) / math.sqrt(alpha), largest), x.dtype)
        m, alpha = x.clamp(-limit, limit), exact(alpha, x.dtype)
        return m / torch.sqrt(1 + (alpha * m) * m)
    limits = (exact(_far(x), x.dtype) / alpha.sqrt()).clamp(max=exact(largest, x.dtype))
    m = torch.clamp(x, -limits, limits)
    return torch.where(alpha == 0, x, m / torch.sqrt(1 + (alpha * m) * m))


def _sigmoid(x: Tensor) -> Tensor:
    return isru_sigmoid(torch, x, exact(_far(x), x.dtype))[0]


def _far(x: Tensor) -> float:
    return far("float64" if x.dtype is torch.float64 else "float32")


def _like(alpha: float | Tensor, x: Tensor) -> float | Tensor:
    return alpha.to(x.dtype) if isinstance(alpha, Tensor) else alpha

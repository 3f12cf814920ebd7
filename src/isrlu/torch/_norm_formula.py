"""`dyisru` in torch ops: weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift.

x is limited to the finite numbers of its dtype. Where x is infinite, the derivatives by x and alpha would otherwise be
0 * inf = NaN, and so would u for alpha = 0.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from isrlu._formula import far
from isrlu.torch import _formula

Number = float | Tensor


def value(x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number) -> Tensor:
    """The function, differentiable to any order."""
    wide = finite(_formula.compute(x))
    return scale(_formula.isru(_like(alpha, wide) * wide + _like(shift, wide), 1.0), weight, bias).to(x.dtype)


def gradients(x: Tensor, parameters: Sequence[Any], grad: Tensor) -> list[Tensor | None]:
    """The gradients of x and of the parameters, None for numbers. Differentiable if grad mode is enabled."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        given = [
            each.detach().requires_grad_() if isinstance(each, Tensor) and not each.requires_grad else each
            for each in (x, *parameters)
        ]
        inputs = [each for each in given if isinstance(each, Tensor)]
        found = iter(torch.autograd.grad(value(*given), inputs, grad, create_graph=create_graph))
    return [next(found) if isinstance(each, Tensor) else None for each in given]


def traced(x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number) -> Tensor:
    """The same with fewer operators and differentiable once, for torch.compile."""
    wide = _formula.compute(x)
    weight, bias = (None if each is None else each.to(wide.dtype) for each in (weight, bias))
    return Layer.apply(wide, weight, bias, _like(alpha, wide), _like(shift, wide)).to(x.dtype)


def exported(x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number) -> Tensor:
    """The same with fewer operators and without derivatives, for the ONNX exporter."""
    wide = _formula.compute(x)
    numbers = (torch.finfo(wide.dtype).max, _far(wide), _like(alpha, wide), _like(shift, wide))
    top, limit, alpha, shift = (_formula.exact(each, wide.dtype) for each in numbers)
    u = (alpha * wide.clamp(-top, top) + shift).clamp(-limit, limit)
    return scale(_of(u), weight, bias).to(x.dtype)


def scale(f: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """weight * f + bias in f's dtype."""
    if weight is not None:
        f = f * weight.to(f.dtype)
    return f if bias is None else f + bias.to(f.dtype)


def finite(x: Tensor) -> Tensor:
    """x with infinities replaced by the largest numbers. The derivative is 0 there and NaN at NaN, unlike clamp's."""
    top = torch.finfo(x.dtype).max
    return torch.where(x.isinf(), x.clamp(-top, top), x)


class Layer(torch.autograd.Function):
    """y = weight f + bias, f = u / sqrt(1 + u^2), u = alpha x + shift, with df/du = r^3, r = 1 / sqrt(1 + u^2).

    All sums run over the rows, those of alpha and shift too: torch.compile then fuses them into one loop.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number
    ) -> Tensor:
        given = x, weight, bias, alpha, shift
        ctx.save_for_backward(*[each if isinstance(each, Tensor) else None for each in given])
        ctx.numbers = [None if isinstance(each, Tensor) else each for each in given]
        return scale(_unit(x, alpha, shift), weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, alpha, shift = (
            n if t is None else t for t, n in zip(ctx.saved_tensors, ctx.numbers, strict=True)
        )
        x = _finite(x)
        u = _limited(alpha * x + shift)
        r = torch.rsqrt(1.0 + u * u)
        grad_u = grad * (r * r * r)  # without the weight
        channel_dims = next((each.dim() for each in (weight, bias) if each is not None), 0)
        rows = tuple(range(x.dim() - channel_dims))

        def by_channel(values: Tensor) -> Tensor:
            return values.sum(rows) if rows else values

        def total(values: Tensor, of: Number) -> Tensor | None:
            return scale(by_channel(values), weight, None).sum().view(of.shape) if isinstance(of, Tensor) else None

        return (
            grad_u * (alpha if weight is None else weight * alpha),
            None if weight is None else by_channel(grad * (u * r)),
            None if bias is None else by_channel(grad),
            total(grad_u * x, alpha),
            total(grad_u, shift),
        )


def _finite(x: Tensor) -> Tensor:
    """The same as `finite`, where no derivative is taken of it."""
    top = torch.finfo(x.dtype).max
    return x.clamp(-top, top)


def _unit(x: Tensor, alpha: Number, shift: Number) -> Tensor:
    return _of(_limited(alpha * _finite(x) + shift))


def _of(u: Tensor) -> Tensor:
    return u / torch.sqrt(1.0 + u * u)


def _limited(u: Tensor) -> Tensor:
    """u within +-far, where f is saturated and u^2 is finite."""
    limit = _far(u)
    return u.clamp(-limit, limit)


def _far(u: Tensor) -> float:
    return far("float64" if u.dtype is torch.float64 else "float32")


def _like(number: Number, x: Tensor) -> Number:
    """A tensor of one value as a tensor without dims in x's dtype; a number as it is."""
    return number.to(x.dtype).reshape(()) if isinstance(number, Tensor) else number

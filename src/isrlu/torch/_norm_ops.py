"""The kernels of DyISRU as operators of PyTorch: what a graph of torch.compile calls for plain CPU tensors.

Inductor has no estimate of the inverse root. From the formula it makes a square root and a division for every element,
and computes them twice in the backward pass. The kernels are faster than that, although nothing is fused with them
(docs/norm.md has the figures). torch.export and torch.func get the formula, which has no operators of this package.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.library import Library

from isrlu import _core
from isrlu.torch import _norm_formula, _private

Number = float | Tensor

# A call of an operator takes some 10 us longer than a loop of Inductor's. From so many elements on it pays off.
MIN_ELEMENTS = 1 << 16

_LIBRARY = Library("isrlu", "FRAGMENT")
_PARAMETERS = "Tensor? weight, Tensor? bias, Tensor alpha, Tensor shift"
for _schema in (
    f"norm_forward(Tensor x, {_PARAMETERS}) -> Tensor",
    f"norm_backward(Tensor x, Tensor grad, {_PARAMETERS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
):
    _LIBRARY.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


def can_take(x: Tensor) -> bool:
    """Whether the operators pay off for x: a CPU tensor of no other class, with many elements."""
    is_plain = type(x) in (Tensor, nn.Parameter) and x.device.type == "cpu"
    return is_plain and _private.is_known(x.numel() >= MIN_ELEMENTS)


def traced(x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number) -> Tensor:
    """`dyisru` by the operators, differentiable once."""
    alpha, shift = (each if isinstance(each, Tensor) else _as_tensor(each, x) for each in (alpha, shift))
    return Layer.apply(x, weight, bias, alpha, shift)


class Layer(torch.autograd.Function):
    """y = dyisru(x, weight, bias, alpha, shift)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Tensor, shift: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias, alpha, shift)
        return torch.ops.isrlu.norm_forward(x, weight, bias, alpha, shift)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *parameters = ctx.saved_tensors
        found = torch.ops.isrlu.norm_backward(x, grad, *parameters)
        return tuple(None if of is None else each for each, of in zip(found, (x, *parameters), strict=True))


def _as_tensor(number: float, x: Tensor) -> Tensor:
    return torch.full((), number, dtype=torch.float64 if x.dtype is torch.float64 else torch.float32)


def _forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Tensor, shift: Tensor) -> Tensor:
    with torch.no_grad():
        y = _core.norm_forward(x, weight, bias, alpha, shift)
        return _norm_formula.value(x, weight, bias, alpha, shift).contiguous() if y is None else y


def _backward(x: Tensor, grad: Tensor, *parameters: Tensor | None) -> tuple[Tensor, ...]:
    with torch.no_grad():
        found = _core.norm_backward(x, grad, *parameters) or _norm_formula.gradients(x, parameters, grad)
    return tuple(x.new_empty(0) if each is None else each.contiguous() for each in found)


def _fake_forward(x: Tensor, *parameters: Tensor | None) -> Tensor:
    return x.new_empty(x.shape)


def _fake_backward(x: Tensor, grad: Tensor, *parameters: Tensor | None) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(0) if each is None else each.new_empty(each.shape) for each in (x, *parameters))


_LIBRARY.impl("norm_forward", _forward, "CPU")
_LIBRARY.impl("norm_backward", _backward, "CPU")
torch.library.register_fake("isrlu::norm_forward", _fake_forward, lib=_LIBRARY)
torch.library.register_fake("isrlu::norm_backward", _fake_backward, lib=_LIBRARY)

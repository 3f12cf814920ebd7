"""The gradient of the kernels: one autograd function. It uses the formula if the gradient is differentiated again."""

from typing import Any

import torch
from torch import Tensor

from isrlu import _core
from isrlu._checks import METHODS
from isrlu.torch import _formula, _private

FUNCTIONS = ("isrlu", "isru", "isru_sigmoid", "sisrlu")
# function -> method -> the kernel's number in the C++ core
KERNELS = {name: {method: _core.activation_kernel(name, method) for method in METHODS} for name in FUNCTIONS}
FUNCTION_OF = {kernel: name for name, methods in KERNELS.items() for kernel in methods.values()}


Call = tuple[int, float | None, bool]  # kernel, alpha if it is a number, inplace


def save(ctx: Any, x: Tensor, made: tuple[Tensor], call: Call, alpha: Tensor | None = None) -> Tensor:
    """Save what the gradient needs; return y. `_core.save_activation` does the same, and takes its place."""
    if call[2]:
        ctx.mark_dirty(x)
    ctx.save_for_backward(x) if alpha is None else ctx.save_for_backward(x, alpha)
    ctx.call = call
    return made[0]


class Activation(torch.autograd.Function):
    """y = f(x, alpha), already computed by a kernel.

    The backward pass uses x, or y if the call was in place. From y it is less accurate near saturation, where
    1 - alpha y^2 cancels.
    """

    forward = staticmethod(save)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        found: tuple[Tensor | None, ...] | None = _core.activation_gradients(ctx, grad)
        return by_formula(ctx, grad) if found is None else found


def by_formula(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients where no kernel can compute them: of tensor subclasses, or if they are differentiated again."""
    saved, *learned = ctx.saved_tensors
    kernel, number, from_output = ctx.call
    compute = _from_output if from_output else _from_input
    alpha = learned[0] if learned else number
    of_x, of_alpha = compute(FUNCTION_OF[kernel], saved, alpha, grad, bool(learned) and ctx.needs_input_grad[3])
    return (of_x, None, None, of_alpha) if learned else (of_x, None, None)


def _from_input(
    function: str, x: Tensor, alpha: float | Tensor, grad: Tensor, wants_alpha: bool
) -> tuple[Tensor, Tensor | None]:
    """The gradients of x and alpha by the formula. They are differentiable if grad mode is enabled (create_graph)."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        x = x if x.requires_grad else x.detach().requires_grad_()
        y = _formula.apply(function, x, _formula.per_channel(alpha, x))
        inputs = (x, alpha) if wants_alpha and isinstance(alpha, Tensor) else (x,)
        found = torch.autograd.grad(y, inputs, grad, create_graph=create_graph)
    return found[0], found[1] if len(found) == 2 else None


def _from_output(
    function: str, y: Tensor, alpha: float | Tensor, grad: Tensor, wants_alpha: bool
) -> tuple[Tensor, Tensor | None]:
    """The gradients of x and alpha from the output: f' = (1 - alpha y^2)^(3/2), df/dalpha = -y^3 / 2."""
    wide, g = _formula.compute(y), _formula.compute(grad)
    if function == "isru_sigmoid":
        return (g * 2 * (wide * (1 - wide)).clamp(min=0).pow(1.5)).to(y.dtype), None
    if function == "sisrlu":
        assert not isinstance(alpha, Tensor)
        positive, negative = _formula.sisrlu_scales(alpha)
        slope = negative * (1 - (alpha / negative**2 * wide) * wide).clamp(min=0).pow(1.5)
        return (g * torch.where(wide >= 0, positive, slope)).to(y.dtype), None
    a = _formula.tensor_if_zero(_formula.per_channel(alpha, y), wide)
    bent = torch.where(a == 0, 0.0, wide) if isinstance(a, Tensor) else wide  # avoids 0 * inf = NaN in the derivative
    slope = (1 - (a * bent) * bent).clamp(min=0).pow(1.5)
    by_alpha = -0.5 * (wide * wide * wide)
    if function == "isrlu":
        slope, by_alpha = torch.where(wide >= 0, 1.0, slope), torch.where(wide >= 0, 0.0, by_alpha)
    if not (wants_alpha and isinstance(alpha, Tensor)):
        return (g * slope).to(y.dtype), None
    assert isinstance(a, Tensor)
    return (g * slope).to(y.dtype), (g * by_alpha).sum_to_size(a.shape).view(alpha.shape)


_private.shorten(Activation, _core.save_activation, lambda node: _core.node_method(node, by_formula))
_private.connect(_private.quick_apply(Activation))

"""`dyisru`: the element-wise replacement of layer normalisation, as a function.

Plain CPU tensors use the C++ kernels, all other tensors the formula in torch ops. core/python/torch_norm.cpp decides.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import handle_torch_function

from isrlu import _core
from isrlu._checks import check_finite
from isrlu.torch import _norm_formula, _norm_ops, _private
from isrlu.torch._functional import LARGEST, _check_input, _is_compiling, _is_exporting_to_onnx, _is_foreign

Number = float | Tensor
_by_kernel = _core.norm_forward


def dyisru(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    alpha: float | Tensor = 0.5,
    shift: float | Tensor = 0.0,
) -> Tensor:
    """weight * u / sqrt(1 + u^2) + bias, u = alpha x + shift.

    Args:
        x: float16, bfloat16, float32 or float64, of any strides and device.
        weight: of the shape of x's last dims; None stands for 1. In x's dtype, or in float32 for float16 and
            bfloat16 x.
        bias: as weight; None stands for 0.
        alpha: a finite number, or a tensor with one value. The value of a tensor is not checked.
        shift: as alpha.

    >>> import torch
    >>> dyisru(torch.tensor([-1.5, 0.0, 1.5]), alpha=0.5)
    tensor([-0.6000,  0.0000,  0.6000])
    """
    if not is_dynamo_compiling():
        y = _by_kernel(x, weight, bias, alpha, shift)
        if type(y) is Tensor:
            return y
        if y is not None:  # a tuple: as an argument of its own the output would count as an input of the function
            return _with_gradient(x, weight, bias, alpha, shift, y)
    return _general(x, weight, bias, alpha, shift)


class Norm(torch.autograd.Function):
    """y = dyisru(x, weight, bias, alpha, shift), already computed by a kernel."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        alpha: Number,
        shift: Number,
        made: tuple[Tensor],
    ) -> Tensor:
        given = x, weight, bias, alpha, shift
        ctx.save_for_backward(*[each if isinstance(each, Tensor) else None for each in given])
        ctx.numbers = [None if isinstance(each, Tensor) else each for each in given]
        return made[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *parameters = [n if t is None else t for t, n in zip(ctx.saved_tensors, ctx.numbers, strict=True)]
        grads = _core.norm_backward(x, grad, *parameters)
        if grads is None:
            grads = _norm_formula.gradients(x, parameters, grad)
        return *grads, None


_with_gradient = _private.quick_apply(Norm)


def _general(x: Tensor, weight: Tensor | None, bias: Tensor | None, alpha: Number, shift: Number) -> Tensor:
    """Check all arguments, then use the formula."""
    if _is_foreign(x):
        return handle_torch_function(dyisru, (x,), x, weight, bias, alpha, shift)
    _check_input(x)
    _check_scale(x, weight, bias)
    given = alpha, shift
    alpha, shift = _check_number("alpha", alpha, x), _check_number("shift", shift, x)
    if not is_dynamo_compiling() and (type(alpha), type(shift)) != (type(given[0]), type(given[1])):
        return dyisru(x, weight, bias, alpha, shift)  # now floats, which the kernels take
    if _is_compiling():
        compiled = _norm_ops if _norm_ops.can_take(x) else _norm_formula
        return compiled.traced(x, weight, bias, alpha, shift)
    if _is_exporting_to_onnx():
        return _norm_formula.exported(x, weight, bias, alpha, shift)
    return _norm_formula.value(x, weight, bias, alpha, shift)


def check_shape(x: Tensor, normalized_shape: Sequence[int]) -> None:
    """Raise if x does not end in the dims of `normalized_shape`."""
    count = len(normalized_shape)
    if count == 0:
        raise ValueError("weight and bias need at least 1 dim, the channels: got 0 dims")
    if x.dim() < count or tuple(x.shape[x.dim() - count :]) != tuple(normalized_shape):
        shape = ", ".join(str(size) for size in normalized_shape)
        raise ValueError(f"x must be of shape [*, {shape}], got {list(x.shape)}: its last dims are the channels")


def _check_scale(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None:
            _check_tensor(name, given, x)
            check_shape(x, given.shape)
    if weight is not None and bias is not None and weight.shape != bias.shape:
        raise ValueError(f"weight is of shape {list(weight.shape)}, bias of {list(bias.shape)}: give equal shapes")


def _check_number(name: str, given: Number, x: Tensor) -> Number:
    if isinstance(given, Tensor):
        _check_tensor(name, given, x)
        if given.numel() != 1:
            raise ValueError(f"{name} must be a number or a tensor with one value, got shape {list(given.shape)}")
        return given
    if type(given) in (float, int) and abs(given) <= LARGEST:
        return float(given)
    if isinstance(given, (bool, complex, str, bytes)) or not hasattr(given, "__float__"):
        raise TypeError(f"{name} must be a number or a tensor with one value, got {type(given).__name__}")
    return check_finite(name, given)


def _check_tensor(name: str, given: Tensor, x: Tensor) -> None:
    if not isinstance(given, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor or None, got {type(given).__name__}")
    narrow = x.dtype in (torch.float16, torch.bfloat16)
    if given.dtype != x.dtype and not (narrow and given.dtype is torch.float32):
        accepted = f"{x.dtype} or torch.float32" if narrow else f"{x.dtype}"
        raise TypeError(f"{name} is {given.dtype}, x is {x.dtype}: {name} must be {accepted}")
    if given.device != x.device:
        raise ValueError(f"{name} is on {given.device}, x on {x.device}: move one of them")

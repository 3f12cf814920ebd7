"""`isrlu`, `isru`, `isru_sigmoid`, `sisrlu`. Plain CPU tensors use the C++ kernels, others the formula in torch ops.

core/python/torch_activation.cpp decides. It returns None if the call must use the formula.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling, is_exporting
from torch.overrides import handle_torch_function, has_torch_function_unary

from isrlu import _core
from isrlu._checks import check_alpha, check_method, refuse_alpha_array
from isrlu.signal import SISRLU_ALPHA
from isrlu.torch import _formula, _private, _traced
from isrlu.torch._autograd import KERNELS
from isrlu.torch._refuse import refuse_alpha

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
LARGEST = sys.float_info.max
ISRLU, ISRU, ISRU_SIGMOID, SISRLU = (KERNELS[name] for name in ("isrlu", "isru", "isru_sigmoid", "sisrlu"))
_by_kernel = _core.activation_forward


def isrlu(x: Tensor, alpha: float | Tensor = 1.0, inplace: bool = False, method: str = "full") -> Tensor:
    """x for x >= 0, x / sqrt(1 + alpha x^2) for x < 0.

    Args:
        x: float16, bfloat16, float32 or float64, of any shape, strides and device.
        alpha: a number >= 0, or a tensor with one value or one value per channel (dim 1 of x, as in PReLU). The
            values of a tensor are not checked.
        inplace: write the result into x. The backward pass then needs only the output.
        method: the inverse square root method on CPU. GPUs have "full" and "approx", compilers only "full".

    >>> import torch
    >>> isrlu(torch.tensor([-2.0, 0.0, 2.0]), alpha=2.0)
    tensor([-0.6667,  0.0000,  2.0000])
    """
    if not is_dynamo_compiling():
        y = _by_kernel(x, ISRLU.get(method), alpha, inplace)
        if y is not None:
            return y
    return _general(isrlu, x, alpha, inplace, method)


def isru(x: Tensor, alpha: float | Tensor = 1.0, inplace: bool = False, method: str = "full") -> Tensor:
    """x / sqrt(1 + alpha x^2), a replacement for tanh. Arguments as in `isrlu`.

    >>> import torch
    >>> isru(torch.tensor([-2.0, 0.0, 2.0]), alpha=2.0)
    tensor([-0.6667,  0.0000,  0.6667])
    """
    if not is_dynamo_compiling():
        y = _by_kernel(x, ISRU.get(method), alpha, inplace)
        if y is not None:
            return y
    return _general(isru, x, alpha, inplace, method)


def isru_sigmoid(x: Tensor, inplace: bool = False, method: str = "full") -> Tensor:
    """(1 + isru(x/2)) / 2, a replacement for the logistic sigmoid. Arguments as in `isrlu`.

    >>> import torch
    >>> isru_sigmoid(torch.tensor([-1.5, 0.0, 1.5]))
    tensor([0.2000, 0.5000, 0.8000])
    """
    if not is_dynamo_compiling():
        y = _by_kernel(x, ISRU_SIGMOID.get(method), 1.0, inplace)
        if y is not None:
            return y
    if _is_foreign(x):
        return handle_torch_function(isru_sigmoid, (x,), x, inplace=inplace, method=method)
    check_method(method)
    _check_input(x)
    return _composite("isru_sigmoid", x, 1.0, inplace)


def sisrlu(x: Tensor, alpha: float = SISRLU_ALPHA, inplace: bool = False, method: str = "full") -> Tensor:
    """lambda x for x >= 0, lambda beta x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU.

    lambda and beta follow from alpha (`isrlu.signal.sisrlu_constants`): for a standard normal x the result has mean 0
    and variance 1. The derivative at 0 is lambda. Arguments as in `isrlu`, but alpha is a number.

    >>> import torch
    >>> sisrlu(torch.tensor([-2.0, 0.0, 2.0]), alpha=1.0)
    tensor([-1.4376,  0.0000,  2.1077])
    """
    if not is_dynamo_compiling():
        y = _by_kernel(x, SISRLU.get(method), alpha, inplace)
        if y is not None:
            return y
    return _general(sisrlu, x, alpha, inplace, method)


def exp_alpha(log_alpha: Tensor) -> Tensor:
    """exp(log_alpha): a learned alpha from its logarithm, in float32 or float64."""
    if _is_foreign(log_alpha):
        return handle_torch_function(exp_alpha, (log_alpha,), log_alpha)
    return torch.exp(log_alpha if log_alpha.dtype is torch.float64 else log_alpha.float())


def _general(function: Callable[..., Tensor], x: Tensor, alpha: float | Tensor, inplace: bool, method: str) -> Tensor:
    """Check all arguments. Retry the kernels with alpha converted to their dtype, then fall back to the formula."""
    if _is_foreign(x):
        return handle_torch_function(function, (x,), x, alpha, inplace=inplace, method=method)
    name = function.__name__
    check_method(method)
    _check_input(x)
    if isinstance(alpha, Tensor):
        if name == "sisrlu":
            refuse_alpha_array(name, "a tensor")
        _check_alpha_tensor(alpha, x)
        if not is_dynamo_compiling():
            computed = alpha.to(torch.float64 if x.dtype is torch.float64 else torch.float32).contiguous()
            y = _by_kernel(x, KERNELS[name][method], computed, inplace)
            if y is not None:
                return y
    elif not (type(alpha) in (float, int) and 0.0 <= alpha <= LARGEST):  # Dynamo can't trace check_alpha
        if is_dynamo_compiling() and isinstance(alpha, (float, int, str, bytes, complex)):
            return refuse_alpha(x, alpha)
        alpha = check_alpha(alpha)
        return function(x, alpha, inplace, method)
    return _composite(name, x, _formula.per_channel(alpha, x), inplace)


def _composite(name: str, x: Tensor, alpha: float | Tensor, inplace: bool) -> Tensor:
    """The function in torch ops, in the variant for torch.compile, for ONNX export, or for eager mode."""
    if inplace:
        return x.copy_(_composite(name, x.clone(), alpha, False))
    if _is_compiling():
        return _traced.differentiable(name, x, alpha)
    if _is_exporting_to_onnx():
        return _traced.value(name, x, alpha)
    return _formula.apply(name, x, alpha)


def _is_compiling() -> bool:
    """Whether torch.compile is tracing, without torch.export or torch.func, which need higher derivatives."""
    return is_dynamo_compiling() and not is_exporting() and not _private.is_transformed()


def _is_exporting_to_onnx() -> bool:
    """Whether torch.onnx.export(dynamo=True) is tracing."""
    return is_exporting() and not is_dynamo_compiling() and torch.onnx.is_in_onnx_export()


def _is_foreign(x: Tensor) -> bool:
    """Whether x is not a tensor but implements __torch_function__, for example a torch.fx.Proxy."""
    return not isinstance(x, Tensor) and has_torch_function_unary(x)


def _check_input(x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor, got {type(x).__name__}")
    if x.layout is torch.strided:
        if x.is_nested:
            raise TypeError("x is a nested tensor of layout torch.strided: make it with layout=torch.jagged")
    elif x.layout is not torch.jagged:
        raise TypeError(f"x must be a dense tensor, got one of layout {x.layout}: give x.to_dense()")
    if x.dtype not in DTYPES:
        raise TypeError(f"x must be float16, bfloat16, float32 or float64, got {x.dtype}")


def _check_alpha_tensor(alpha: Tensor, x: Tensor) -> None:
    if alpha.dtype not in DTYPES:
        raise TypeError(f"alpha must be float16, bfloat16, float32 or float64, got {alpha.dtype}")
    if alpha.device != x.device:
        raise ValueError(f"alpha is on {alpha.device}, x on {x.device}: move one of them")
    channels = x.shape[1] if x.dim() > 1 else 1
    count = alpha.numel()
    if alpha.dim() > 1 or (count != 1 and count != channels):  # `in (1, channels)` is False for Dynamo's symbolic sizes
        raise ValueError(
            f"alpha must hold one value or one per channel ({channels} for x of shape {tuple(x.shape)}), "
            f"got shape {tuple(alpha.shape)}"
        )

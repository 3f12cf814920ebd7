"""Eager CPU tensors to the kernels: which tensors may go there, the thread pool, and the gradient."""

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from isrlu import _core
from isrlu.torch import _formula

DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16"}
LIBRARIES = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}


def connect() -> None:
    """Give the kernels PyTorch's thread pool, and their quick way in the functions that it asks about a tensor.

    PyTorch has both since 2.10; without the pool the kernels run on one thread, without the table the quick way answers
    None and everything goes the general one.
    """
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / LIBRARIES.get(sys.platform, "libtorch_cpu.so")))
    if hasattr(library, "torch_parallel_for"):
        _core.set_parallel_for(ctypes.cast(library.torch_parallel_for, ctypes.c_void_p).value)
    if hasattr(Tensor, "__dlpack_c_exchange_api__"):
        _core.connect_torch(
            Tensor,
            Parameter,
            torch.empty_like,
            torch.is_grad_enabled,
            torch._C._len_torch_dispatch_stack,
            torch._C._get_tracing_state,
            torch._C._functorch.peek_interpreter_stack,
            super(torch.autograd.Function, InverseRootUnit).apply,  # transforms are looked for before
            vars(forward_ad),
            Tensor.__dlpack_c_exchange_api__,
        )


def takes(x: Tensor) -> bool:
    """Whether the kernels see in x what PyTorch sees: no wrapper, tracer, transform or lazy negation stands between."""
    return (
        type(x) in (Tensor, Parameter)
        and x.is_cpu
        and x.layout is torch.strided
        and torch._C._has_storage(x)
        and torch._C._functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._get_tracing_state() is None
        and not x.is_neg()
        and not x._is_zerotensor()
        and x.numel() > 0  # last: under a tracer it would be a tensor
    )


def apply(function: str, x: Tensor, alpha: float | Tensor, inplace: bool, method: str) -> Tensor:
    """The function by its kernel, with autograd where a gradient is wanted. `takes` holds for x and alpha."""
    wanted = torch.is_grad_enabled() and (x.requires_grad or (isinstance(alpha, Tensor) and alpha.requires_grad))
    if inplace and not _may_be_overwritten(x, wanted):
        return x.copy_(apply(function, x.clone(), alpha, False, method))  # copy_ knows every rule about such tensors
    if not _dense(x):
        x = x.clone()
    if isinstance(alpha, Tensor):
        alpha = alpha.to(torch.float64 if x.dtype is torch.float64 else torch.float32).contiguous()
    if wanted and isinstance(alpha, Tensor):
        return LearnedInverseRootUnit.apply(x, alpha, function, method, inplace)
    if wanted:
        return InverseRootUnit.apply(x, function, alpha, method, inplace)
    y = x if inplace else torch.empty_like(x)
    _forward(function, x, y, alpha, method)
    if inplace and not x.is_inference():
        torch.autograd.graph.increment_version(x)
    return y


class InverseRootUnit(torch.autograd.Function):
    """y = f(x) with a number for alpha. In place it keeps y alone, else x: from y, 1 - alpha y^2 loses digits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, function: str, alpha: float, method: str, inplace: bool) -> Tensor:
        if inplace:
            ctx.mark_dirty(x)
        y = _core.plain_forward(x, function, alpha, method, inplace)
        if y is None:  # an older PyTorch, without the table of C functions
            y = x if inplace else torch.empty_like(x)
            _forward(function, x, y, alpha, method)
        ctx.save_for_backward(y if inplace else x)
        ctx.how = function, alpha, method, inplace
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (saved,) = ctx.saved_tensors
        function, alpha, method, from_output = ctx.how
        grad_x = _core.fast_backward(saved, grad, function, alpha, method, from_output)
        if grad_x is None:
            grad_x, _ = _backward(function, saved, alpha, grad, (True, False), method, from_output)
        return grad_x, None, None, None, None


class LearnedInverseRootUnit(torch.autograd.Function):
    """y = f(x, alpha) with a tensor for alpha, which gets its gradient too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, function: str, method: str, inplace: bool) -> Tensor:
        if inplace:
            ctx.mark_dirty(x)
        y = x if inplace else torch.empty_like(x)
        _forward(function, x, y, alpha, method)
        ctx.save_for_backward(y if inplace else x, alpha)
        ctx.how = function, method, inplace
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved, alpha = ctx.saved_tensors
        function, method, from_output = ctx.how
        return *_backward(function, saved, alpha, grad, ctx.needs_input_grad, method, from_output), None, None, None


def _forward(function: str, x: Tensor, y: Tensor, alpha: float | Tensor, method: str) -> None:
    kernel = _kernel(function, x.dtype, method)
    if isinstance(alpha, Tensor):
        _core.forward_channels(kernel, x.data_ptr(), y.data_ptr(), *_extents(x, alpha), alpha.data_ptr())
    else:
        _core.forward(kernel, x.data_ptr(), y.data_ptr(), x.numel(), alpha)


def _backward(
    function: str,
    saved: Tensor,
    alpha: float | Tensor,
    grad: Tensor,
    wanted: tuple[bool, ...],
    method: str,
    from_output: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients of x and alpha: by the kernels, or by the formula where they must be differentiable themselves."""
    if torch.is_grad_enabled() or not (takes(grad) and takes(saved)):
        by_formula = _backward_from_output if from_output else _backward_from_input
        return by_formula(function, saved, alpha, grad, wanted)
    kernel = _kernel(function, saved.dtype, method)
    if not _dense(saved):  # a hook on saved tensors made it so
        saved = saved.clone()
    if grad.stride() != saved.stride():
        grad = torch.empty_like(saved).copy_(grad)
    grad_x = torch.empty_like(saved)
    addresses = saved.data_ptr(), grad.data_ptr(), grad_x.data_ptr()
    if not isinstance(alpha, Tensor):
        _core.backward(kernel, *addresses, saved.numel(), alpha, from_output)
        return grad_x, None
    grad_alpha = alpha.new_zeros(alpha.shape, dtype=torch.float64) if wanted[1] else None
    address = 0 if grad_alpha is None else grad_alpha.data_ptr()
    _core.backward_channels(kernel, *addresses, *_extents(saved, alpha), alpha.data_ptr(), from_output, address)
    return grad_x, None if grad_alpha is None else grad_alpha.to(alpha.dtype)


def _backward_from_input(
    function: str, x: Tensor, alpha: float | Tensor, grad: Tensor, wanted: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """The formula's gradient, itself differentiable where the caller wants that."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        x = x if x.requires_grad else x.detach().requires_grad_()
        if function == "isru_sigmoid":
            return *torch.autograd.grad(_formula.isru_sigmoid(x), x, grad, create_graph=create_graph), None
        y = getattr(_formula, function)(x, _formula.per_channel(alpha, x))
        inputs = (x, alpha) if wanted[1] and isinstance(alpha, Tensor) else (x,)
        return *torch.autograd.grad(y, inputs, grad, create_graph=create_graph), *([] if wanted[1] else [None])


def _backward_from_output(
    function: str, y: Tensor, alpha: float | Tensor, grad: Tensor, wanted: tuple[bool, ...]
) -> tuple[Tensor, Tensor | None]:
    """The same from the output: f' = (1 - alpha y^2)^(3/2), df/dalpha = -y^3 / 2."""
    wide, g = _formula.compute(y), _formula.compute(grad)
    if function == "isru_sigmoid":
        return (g * 2 * (wide * (1 - wide)).clamp(min=0).pow(1.5)).to(y.dtype), None
    a = _formula.tensor_if_zero(_formula.per_channel(alpha, y), wide)
    bent = torch.where(a == 0, 0.0, wide) if isinstance(a, Tensor) else wide  # 0 times the square's derivative is NaN
    slope = (1 - (a * bent) * bent).clamp(min=0).pow(1.5)
    by_alpha = -0.5 * (wide * wide * wide)
    if function == "isrlu":
        slope, by_alpha = torch.where(wide >= 0, 1.0, slope), torch.where(wide >= 0, 0.0, by_alpha)
    if not (wanted[1] and isinstance(alpha, Tensor)):
        return (g * slope).to(y.dtype), None
    assert isinstance(a, Tensor)
    return (g * slope).to(y.dtype), (g * by_alpha).sum_to_size(a.shape).view(alpha.shape)


def _extents(x: Tensor, alpha: Tensor) -> tuple[int, int, int]:
    """Dense x as [outer, channels, inner]: whatever the layout, the stride of dim 1 is what lies inside of it."""
    channels = alpha.numel()
    if channels == 1:
        return 1, 1, x.numel()
    inner = x.stride(1)
    return x.numel() // (channels * inner), channels, inner


def _dense(x: Tensor) -> bool:
    """Whether the elements fill a stretch of memory, in whatever order of dims."""
    if x.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(pair for pair in zip(x.stride(), x.shape, strict=True) if pair[1] != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _may_be_overwritten(x: Tensor, wanted: bool) -> bool:
    """Whether a kernel may write into x: dense, not frozen, and, where autograd watches, no leaf or view of another."""
    frozen = x.is_inference() and not torch.is_inference_mode_enabled()
    return _dense(x) and not frozen and not (wanted and (x._is_view() or (x.requires_grad and x.is_leaf)))


@functools.cache
def _kernel(function: str, dtype: torch.dtype, method: str) -> int:
    return _core.kernel(function, DTYPES[dtype], method)


connect()

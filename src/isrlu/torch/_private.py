"""All uses of PyTorch's private names. If one is missing, calls use a slower path and nothing fails.

find(path)       the object, or None
connect(apply)   pass PyTorch's classes and functions to the kernels, which then accept plain tensors
"""

import ctypes
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad, graph

from isrlu import _core
from isrlu.torch import _triton, _triton_norm

LIBRARIES = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}

# The kernels call these to detect an active dispatch mode, tracer or function transform.
WATCHERS = {
    "dispatch_modes": "_C._len_torch_dispatch_stack",
    "tracing_state": "_C._get_tracing_state",
    "transforms": "_C._functorch.peek_interpreter_stack",
}
# Methods and attributes that the kernels look up by name (core/python/torch_tensor.cpp).
OF_TENSORS = ("_is_view", "__dlpack_c_exchange_api__")
OF_FORWARD_AD = ("_current_level",)
OF_CONTEXTS = ("to_save", "dirty_tensors")

# The hook dictionaries of a module, which `swap` moves to its replacement.
HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def find(path: str) -> Any:
    """torch.PATH, or None if this version of PyTorch does not have it."""
    found: Any = torch
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def connect(apply: Callable[..., Any]) -> bool:
    """Let the kernels accept plain CPU tensors. `apply` calls the autograd function. False if a name is missing.

    The table of C functions (__dlpack_c_exchange_api__) and the thread pool exist since PyTorch 2.10. The thread pool
    is optional: without it the kernels run on one thread.
    """
    _core.set_parallel_for(_thread_pool())
    watchers = {name: find(path) for name, path in WATCHERS.items()}
    known = all(hasattr(Tensor, name) for name in OF_TENSORS) and all(hasattr(forward_ad, n) for n in OF_FORWARD_AD)
    if not known or None in watchers.values():
        return False
    return _core.connect_torch(
        {
            "Tensor": Tensor,
            "Parameter": nn.Parameter,
            "empty_like": torch.empty_like,
            "is_grad_enabled": torch.is_grad_enabled,
            "is_inference_mode_enabled": torch.is_inference_mode_enabled,
            "increment_version": graph.increment_version,
            "is_neg": Tensor.is_neg,
            "forward_ad": vars(forward_ad),
            "apply": apply,
            "launch_forward": _triton.forward,
            "launch_backward": _triton.backward,
            "launch_norm_forward": _triton_norm.forward,
            "launch_norm_backward": _triton_norm.backward,
            **watchers,
        },
        Tensor.__dlpack_c_exchange_api__,
    )


def _thread_pool() -> int:
    """The address of libtorch's torch_parallel_for, or 0 if it is missing."""
    folder = Path(torch.__file__).parent / "lib"
    try:
        library = ctypes.CDLL(str(folder / LIBRARIES.get(sys.platform, "libtorch_cpu.so")))
        return ctypes.cast(library.torch_parallel_for, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def quick_apply(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """The function's `apply` without its check for torch.func transforms, which the kernels have already done."""
    apply = getattr(super(torch.autograd.Function, function), "apply", None)
    return function.apply if apply is None else apply


def shorten(
    function: type[torch.autograd.Function], forward: Callable[..., Any], make_apply: Callable[[type], Any]
) -> bool:
    """Remove Python calls around an autograd function. False if a name is missing; it then works as PyTorch calls it.

    `forward` replaces the function's own: it sets the attributes that ctx.save_for_backward and ctx.mark_dirty would
    set. The autograd engine calls the method that `make_apply` makes for the class of the function's nodes, instead of
    one that first looks up the function's `backward`.
    """
    node: Any = getattr(function, "_backward_cls", None)
    if not all(hasattr(function, name) for name in OF_CONTEXTS) or not hasattr(node, "apply"):
        return False
    function.forward = staticmethod(forward)  # type: ignore[method-assign]
    node.apply = make_apply(node)
    return True


def is_known(condition: Any) -> bool:
    """Whether a condition on sizes holds, asked under torch.compile. False for a size that depends on data."""
    ask = find("fx.experimental.symbolic_shapes.guard_or_false") or bool
    return ask(condition)


def constant_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compiler.assume_constant_result, which would import the compiler, and with it Triton: seconds."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def is_transformed() -> bool:
    """Whether a torch.func transform is active, as seen under torch.compile; True if PyTorch has no such query."""
    depth = find("_C._functorch.get_dynamic_layer_stack_depth")
    return depth is None or depth() != 0


def move_hooks(old: nn.Module, new: nn.Module) -> None:
    """Move the hook dictionaries themselves, not copies: the handles that remove a hook refer to them.

    The old module, which may be a part of the new one, has none afterwards. Where both have hooks, those of the new
    module stay, but their handles no longer remove them.
    """
    for name in HOOKS:
        hooks = getattr(old, name, None)
        if hooks:
            hooks.update(getattr(new, name))
            setattr(new, name, hooks)
            setattr(old, name, OrderedDict())
    if old._is_full_backward_hook is not None:
        new._is_full_backward_hook = old._is_full_backward_hook


def is_fake(tensor: Tensor) -> bool:
    """Whether it stands for a tensor in a trace (FakeTensorMode) and has no values."""
    fake = find("_subclasses.fake_tensor.FakeTensor")
    return fake is not None and isinstance(tensor, fake)

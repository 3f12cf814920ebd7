"""Modules with packed weights, which an optimizer's step unpacks.

PyTorch counts most changes of a weight (`_version`), but not those of an optimizer with fused=True on the CPU.
"""

import functools
import threading
import weakref
from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

_modules: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def watch(module: Any) -> None:
    """Call module.unpack_weights() after each optimizer's step that changes its parameters."""
    _watch_optimizers()
    with _lock:
        _modules.add(module)


@functools.cache
def _watch_optimizers() -> None:
    register_optimizer_step_post_hook(_unpack)


def _unpack(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    with _lock:
        packed = [module for module in _modules if module._packed_weights is not None]
    changed = {id(each) for group in optimizer.param_groups for each in group["params"]} if packed else set()
    for module in packed:
        if any(id(each) in changed for each in module._parameters.values()):
            module.unpack_weights()

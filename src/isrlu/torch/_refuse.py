"""Errors about arguments in a graph of torch.compile(fullgraph=True), where a raise would stop the tracing."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("isrlu::refuse", mutates_args=())
def _refuse(x: Tensor, message: str, type_error: bool) -> Tensor:
    raise (TypeError if type_error else ValueError)(message)


@_refuse.register_fake
def _(x: Tensor, message: str, type_error: bool) -> Tensor:
    return torch.empty_like(x)


_refuse.register_autograd(lambda context, gradient: (gradient, None, None))  # never runs: tracing asks for it


def refuse(x: Tensor, reason: str) -> Tensor:
    """Raise ValueError when the compiled graph runs."""
    return _refuse(x, reason, False)


def refuse_alpha(x: Tensor, alpha: Any) -> Tensor:
    """Raise the error of `check_alpha` when the compiled graph runs. Only for an alpha that `check_alpha` refuses."""
    if type(alpha) in (float, int):
        known = (alpha * 1.0).__float__()  # a number that the graph takes as an input has no repr
        return refuse(x, f"alpha must be a finite number >= 0, got {known!r}")
    return _refuse(x, f"alpha must be a real number or an array of them, got {alpha!r}", True)

"""`calculate_gain`: torch.nn.init.calculate_gain, extended by the functions of this package."""

from typing import Any

from torch.nn import init

from isrlu import signal


def calculate_gain(nonlinearity: Any, param: float | None = None) -> float:
    """The gain 1 / sqrt(E[f(z)^2]), with which weights of deviation gain / sqrt(fan_in) keep the second moment.

    Args:
        nonlinearity: "isrlu", "isru" or "sisrlu" (whose gain is 1). Other names go to `torch.nn.init.calculate_gain`.
        param: alpha. The default is that of the function. For other names it is PyTorch's `param`.

    >>> import torch
    >>> w = torch.empty(64, 128)
    >>> _ = torch.nn.init.normal_(w, std=calculate_gain("isrlu", 1.0) / 128**0.5)  # as kaiming_normal_ does for ReLU
    >>> round(calculate_gain("isrlu", 1.0), 4), round(calculate_gain("relu"), 4)
    (1.2197, 1.4142)
    """
    if nonlinearity in ("isrlu", "isru", "sisrlu"):
        return signal.rms_gain(nonlinearity, param)
    return init.calculate_gain(nonlinearity, param)

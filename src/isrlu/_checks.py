"""What every framework module refuses, in the same words."""

import math
from typing import Any

METHODS = ("full", "approx", "newton1", "newton2", "ieee", "kinney", "table")


def check_alpha(alpha: Any) -> float:
    """Return the Python number `alpha` as a float, or raise if no ISRLU has it.

    >>> check_alpha(3)
    3.0
    >>> check_alpha(-1)
    Traceback (most recent call last):
        ...
    ValueError: alpha must be a finite number >= 0, got -1
    """
    if isinstance(alpha, (bool, complex, str, bytes)) or not hasattr(alpha, "__float__"):
        raise TypeError(f"alpha must be a real number or an array of them, got {alpha!r}")
    value = float(alpha)
    if not 0.0 <= value < math.inf:  # also false for NaN
        raise ValueError(f"alpha must be a finite number >= 0, got {alpha!r}")
    return value


def check_method(method: str) -> str:
    """Return `method` if it is a known way to the inverse square root.

    >>> check_method("fast")
    Traceback (most recent call last):
        ...
    ValueError: unknown method 'fast': known are full, approx, newton1, newton2, ieee, kinney, table
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: known are {', '.join(METHODS)}")
    return method

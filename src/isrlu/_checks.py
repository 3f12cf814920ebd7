"""Argument checks that all framework modules share, with the same error texts."""

import contextlib
import math
from collections.abc import Iterator
from numbers import Integral
from typing import Any, NoReturn

from isrlu._missing import install_extra

METHODS = ("full", "approx", "newton1", "newton2", "ieee", "kinney", "table")


def check_alpha(alpha: Any) -> float:
    """Return the Python number `alpha` as a float. Raise if it is not a finite number >= 0.

    >>> check_alpha(3)
    3.0
    >>> check_alpha(-1)
    Traceback (most recent call last):
        ...
    ValueError: alpha must be a finite number >= 0, got -1
    """
    if isinstance(alpha, (bool, complex, str, bytes)) or not hasattr(alpha, "__float__"):
        raise TypeError(f"alpha must be a real number or an array of them, got {alpha!r}")
    try:
        value = float(alpha)
    except OverflowError:  # a Python integer beyond float's range
        value = math.inf
    if not 0.0 <= value < math.inf:  # also false for NaN
        raise ValueError(f"alpha must be a finite number >= 0, got {alpha!r}")
    return value


def check_finite(name: str, number: Any) -> float:
    """Return the Python number `number` as a float. Raise if it is not finite.

    >>> check_finite("shift", float("inf"))
    Traceback (most recent call last):
        ...
    ValueError: shift must be a finite number, got inf
    """
    if isinstance(number, (bool, complex, str, bytes)) or not hasattr(number, "__float__"):
        raise TypeError(f"{name} must be a real number, got {number!r}")
    try:
        value = float(number)
    except OverflowError:  # a Python integer beyond float's range
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {number!r}")
    return value


def check_channels(shape: tuple[int, ...], name: str, given: tuple[int, ...]) -> None:
    """Raise if x's `shape` does not end in `given`, the shape of dyisru's weight or bias.

    >>> check_channels((4, 8), "weight", (7,))
    Traceback (most recent call last):
        ...
    ValueError: x of shape (4, 8) does not end in the shape (7,) of weight
    """
    if not given:
        raise ValueError(f"{name} needs at least 1 dim, the channels: got 0 dims")
    if len(shape) < len(given) or tuple(shape[len(shape) - len(given) :]) != tuple(given):
        raise ValueError(f"x of shape {tuple(shape)} does not end in the shape {tuple(given)} of {name}")


def check_learnable_alpha(alpha: Any, learnable: bool, num_parameters: int = 1) -> float:
    """Return a layer's `alpha` as a float. Raise if `alpha` or `num_parameters` is not valid for the layer.

    >>> check_learnable_alpha(0, learnable=True)
    Traceback (most recent call last):
        ...
    ValueError: a learnable alpha must start above 0, got 0
    """
    value = check_alpha(alpha)
    if learnable and value == 0:
        raise ValueError(f"a learnable alpha must start above 0, got {alpha!r}")
    if isinstance(num_parameters, bool) or not isinstance(num_parameters, Integral) or num_parameters < 1:
        raise ValueError(f"num_parameters must be an integer >= 1, got {num_parameters!r}")
    if not learnable and num_parameters != 1:
        raise ValueError(f"num_parameters={num_parameters!r} needs learnable=True")
    return value


def refuse_alpha_array(function: str, given: str) -> NoReturn:
    """Raise for an alpha that must be a number.

    >>> refuse_alpha_array("sisrlu", "a tensor")
    Traceback (most recent call last):
        ...
    TypeError: alpha of sisrlu must be a number, got a tensor: beta and lambda are computed from it
    """
    raise TypeError(f"alpha of {function} must be a number, got {given}: beta and lambda are computed from it")


def check_method(method: str) -> str:
    """Return `method` if it names a method for the inverse square root. Raise otherwise.

    >>> check_method("fast")
    Traceback (most recent call last):
        ...
    ValueError: unknown method 'fast': known are full, approx, newton1, newton2, ieee, kinney, table
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: known are {', '.join(METHODS)}")
    return method


@contextlib.contextmanager
def require(framework: str, extra: str | None = None) -> Iterator[None]:
    """Wrap the imports of `framework`. If it is missing, the error is one line that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != framework:
            raise  # the framework is installed, but one of its own imports is missing
        hint = install_extra(extra or framework)
        raise ModuleNotFoundError(f"{framework} is not installed: {hint}", name=error.name) from None

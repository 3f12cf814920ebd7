"""The functions that the figures draw, in float64: ISRLU and ISRU, the functions they replace, and derivatives."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isrlu.numpy import isrlu, isrlu_grad, isru, isru_sigmoid

Array = npt.NDArray[np.float64]
__all__ = ["FIGURE1", "Array", "Curve", "elu", "elu_grad", "isrlu", "isrlu_grad", "isru", "isru_sigmoid", "sigmoid"]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def isrlu_second(x: Array, alpha: float = 1.0) -> Array:
    """0 for x >= 0, -3 alpha x (1 + alpha x^2)^(-5/2) for x < 0. Continuous: both are 0 at 0."""
    return np.where(x < 0, -3 * alpha * x * (1 + alpha * x * x) ** -2.5, 0.0)


def elu(x: Array) -> Array:
    """x for x >= 0, exp(x) - 1 for x < 0."""
    return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)


def elu_grad(x: Array) -> Array:
    """1 for x >= 0, exp(x) for x < 0."""
    return np.exp(np.minimum(x, 0))


def elu_second(x: Array) -> Array:
    """0 for x >= 0, exp(x) for x < 0. It jumps from 1 to 0 at 0."""
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 0.0)


@dataclass(frozen=True)
class Curve:
    """One line of figure 1 with its derivatives. `second` is None for ReLU: it is 0 everywhere except at 0."""

    label: str
    line: str
    value: Callable[[Array], Array]
    first: Callable[[Array], Array]
    second: Callable[[Array], Array] | None


FIGURE1 = (
    Curve("ISRLU, α = 1", "blue", isrlu, isrlu_grad, isrlu_second),
    Curve(
        "ISRLU, α = 3", "vermillion", lambda x: isrlu(x, 3), lambda x: isrlu_grad(x, 3), lambda x: isrlu_second(x, 3)
    ),
    Curve("ELU", "green", elu, elu_grad, elu_second),
    Curve("ReLU", "ink", lambda x: np.maximum(x, 0), lambda x: np.where(x < 0, 0.0, 1.0), None),
)

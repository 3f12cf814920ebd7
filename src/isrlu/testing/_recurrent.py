"""The tolerances of LSTM and GRU. Their results are sums, so errors are in ulps of the largest element."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from isrlu.testing._ulps import ulp


@dataclass(frozen=True)
class RecurrentBounds:
    """Largest error of states and gradients, in ulps of the largest element or of 1, whichever is larger."""

    state: float
    gradient: float


RECURRENT = {
    "float64": RecurrentBounds(state=45, gradient=4500),
    "float32": RecurrentBounds(state=25, gradient=170),
    "bfloat16": RecurrentBounds(state=2.6, gradient=2.6),
}
"""dtype -> bounds on the difference of two implementations (kernels, formula, compiled, torch.nn).

For about 10 steps and 100 terms per sum.
"""


def check_recurrent(actual: ArrayLike, expected: ArrayLike, dtype: str, quantity: str = "state") -> None:
    """Raise AssertionError unless `actual` is within the bounds of `expected`. `quantity` is "state" or "gradient".

    >>> check_recurrent([0.5, 1.0], [0.5, 1.0 + 1e-6], "float32")
    """
    actual, expected = (np.asarray(array).astype(np.float64) for array in (actual, expected))
    if actual.shape != expected.shape:
        raise AssertionError(f"shape {actual.shape}, expected {expected.shape}")
    if not expected.size:
        return
    bound = getattr(RECURRENT[dtype], quantity)
    unit = ulp(max(1.0, float(np.abs(expected).max())), dtype)
    error = float(np.abs(actual - expected).max() / unit)
    if not error <= bound:
        raise AssertionError(f"a {dtype} {quantity} is off by {error:.4g} ulps of the largest, allowed are {bound}")

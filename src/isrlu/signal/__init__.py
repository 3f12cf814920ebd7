"""How a signal goes through many layers: moments, gains and slopes of the activations under a normal distribution.

All results are Python floats, accurate to about 1e-14. No framework is needed. `function` is one of the names in
`FUNCTIONS`, or any callable that maps a NumPy array to one of the same shape. docs/signal.md states and proves what the
numbers mean. `python -m isrlu.signal` prints its tables.

>>> round(std_gain("isrlu", 1.0), 4)  # for normalised weights, as in NFNets
1.2372
"""

from isrlu.signal._domain import DomainCheck, check_domain
from isrlu.signal._moments import (
    FUNCTIONS,
    Moments,
    jacobian,
    moments,
    rms_gain,
    second_moment,
    second_moment_slope,
    std_gain,
    variance_slope,
)
from isrlu.signal._sisrlu import SISRLU_ALPHA, Constants, DropoutConstants, dropout_constants, sisrlu_constants

__all__ = [
    "FUNCTIONS",
    "SISRLU_ALPHA",
    "Constants",
    "DomainCheck",
    "DropoutConstants",
    "Moments",
    "check_domain",
    "dropout_constants",
    "jacobian",
    "moments",
    "rms_gain",
    "second_moment",
    "second_moment_slope",
    "sisrlu_constants",
    "std_gain",
    "variance_slope",
]

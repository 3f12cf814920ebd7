"""Test vectors made with mpmath, a float64 oracle, errors in ulps, and the error bounds of every framework."""

from isrlu.testing._bounds import BOUNDS, ESTIMATE, Bounds, bounds, check, root_error
from isrlu.testing._frameworks import EVALUATORS, evaluate, questions
from isrlu.testing._oracle import alpha_derivative, derivative, recurrent_step, reference
from isrlu.testing._recurrent import RECURRENT, RecurrentBounds, check_recurrent
from isrlu.testing._ulps import FORMATS, Format, assert_ulps, ulp, ulp_error
from isrlu.testing._vectors import DTYPES, FUNCTIONS, QUANTITIES, WITH_ALPHA_DERIVATIVE, Vectors, expect, load

__all__ = [
    "BOUNDS",
    "DTYPES",
    "ESTIMATE",
    "EVALUATORS",
    "FORMATS",
    "FUNCTIONS",
    "QUANTITIES",
    "RECURRENT",
    "WITH_ALPHA_DERIVATIVE",
    "Bounds",
    "Format",
    "RecurrentBounds",
    "Vectors",
    "alpha_derivative",
    "assert_ulps",
    "bounds",
    "check",
    "check_recurrent",
    "derivative",
    "evaluate",
    "expect",
    "load",
    "questions",
    "recurrent_step",
    "reference",
    "root_error",
    "ulp",
    "ulp_error",
]

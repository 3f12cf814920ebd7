"""Test vectors made with mpmath, errors in ulps, and the bounds that every framework is held to."""

from isrlu.testing._bounds import BOUNDS, Bounds, check
from isrlu.testing._frameworks import EVALUATORS, evaluate, questions
from isrlu.testing._ulps import FORMATS, Format, assert_ulps, ulp, ulp_error
from isrlu.testing._vectors import DTYPES, FUNCTIONS, QUANTITIES, Vectors, load

__all__ = [
    "BOUNDS",
    "DTYPES",
    "EVALUATORS",
    "FORMATS",
    "FUNCTIONS",
    "QUANTITIES",
    "Bounds",
    "Format",
    "Vectors",
    "assert_ulps",
    "check",
    "evaluate",
    "load",
    "questions",
    "ulp",
    "ulp_error",
]

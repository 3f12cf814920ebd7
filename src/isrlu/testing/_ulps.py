"""Errors in units in the last place (ulps), and the assertion that all framework tests use."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: bits of the significand, and exponent of the largest number."""

    digits: int
    emax: int

    @property
    def largest(self) -> float:
        return float(np.ldexp(2.0 - 2.0 ** (1 - self.digits), self.emax))

    @property
    def smallest_normal(self) -> float:
        return float(np.ldexp(1.0, 1 - self.emax))

    @property
    def smallest(self) -> float:
        return float(np.ldexp(1.0, 2 - self.emax - self.digits))


FORMATS = {
    "float64": Format(53, 1023),
    "float32": Format(24, 127),
    "float16": Format(11, 15),
    "bfloat16": Format(8, 127),
}
"""dtype -> its binary format."""


def ulp(value: ArrayLike, dtype: str) -> NDArray[np.float64]:
    """The distance between the two neighbouring numbers of `dtype` around `value`; constant for subnormals.

    >>> float(ulp(1.0, "float32")) == 2.0**-23
    True
    """
    form = FORMATS[dtype]
    magnitude = np.clip(np.abs(_wide(value)), form.smallest_normal, form.largest)
    return np.ldexp(1.0, np.frexp(magnitude)[1] - form.digits)


def ulp_error(
    actual: ArrayLike, true: ArrayLike, dtype: str, *, signs: bool = False, flush: bool = False
) -> NDArray[np.float64]:
    """|actual - true| / ulp(true) for each element, for `actual` of `dtype` and `true` in float64 or long double.

    Correct rounding gives an error of at most 0.5 (1 for float64 if the true values are rounded to float64). Infinity
    counts as the number after the largest finite one. Two NaNs have error 0. One NaN is an infinite error. With
    `signs`, a wrong sign is an infinite error too, even of a zero. With `flush`, a zero has error 0 if the true value
    is subnormal.

    >>> float(ulp_error(1.0 + 2.0**-22, 1.0, "float32"))
    2.0
    """
    form = FORMATS[dtype]
    actual, true = np.broadcast_arrays(_wide(actual), _wide(true))
    unit = ulp(true, dtype)
    overflows = np.abs(true) - form.largest >= unit / 2
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(np.clip(actual, -form.largest, form.largest) - np.clip(true, -form.largest, form.largest)) / unit
    error = np.where(np.isinf(actual) == overflows, error, error + 1)
    if flush:
        error = np.where((actual == 0) & (np.abs(true) < form.smallest_normal), 0.0, error)
    if signs:
        error = np.where(np.signbit(actual) == np.signbit(true), error, np.inf)
    both = np.isnan(actual) & np.isnan(true)
    error = np.where(np.isnan(actual) | np.isnan(true), np.where(both, 0.0, np.inf), error)
    return error.astype(np.float64)


def _wide(value: ArrayLike) -> NDArray[Any]:
    """The array as float64, or unchanged if it is long double."""
    array = np.asarray(value)
    return array if array.dtype == np.longdouble else array.astype(np.float64)


def assert_ulps(
    actual: ArrayLike,
    true: ArrayLike,
    dtype: str,
    bound: float,
    *,
    signs: bool = False,
    flush: bool = False,
    **inputs: ArrayLike,
) -> None:
    """Raise AssertionError if any error exceeds `bound` ulps. The message has the worst one and its `inputs`."""
    actual, true = np.asarray(actual, np.float64), np.asarray(true, np.float64)
    if actual.shape != true.shape:
        raise AssertionError(f"shape {actual.shape}, expected {true.shape}")
    error = ulp_error(actual, true, dtype, signs=signs, flush=flush)
    wrong = ~(error <= bound)
    if wrong.any():
        worst = np.unravel_index(np.argmax(error), error.shape)
        at = "".join(f", {name} = {np.broadcast_to(values, error.shape)[worst]}" for name, values in inputs.items())
        raise AssertionError(
            f"{wrong.sum()} of {error.size} {dtype} results are off by more than {bound} ulps; "
            f"worst: {actual[worst]}, should be {true[worst]} ({error[worst]:.4g} ulps){at}"
        )

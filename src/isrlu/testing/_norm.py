"""Test vectors and tolerances of dyisru.

y = weight f(u) + bias and u = alpha x + shift are sums that can cancel. Errors are therefore in ulps of a scale: the
same sums with all terms positive, and with u's error carried through f. Without cancellation this is at most 4 |y|.
"""

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isrlu.testing._ulps import FORMATS, ulp

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NormVectors:
    """Inputs of one dtype, f(u), f'(u) and y, in float64. f and y are by mpmath."""

    dtype: str
    x: Floats
    weight: Floats
    bias: Floats
    alpha: Floats
    shift: Floats
    f: Floats
    slope: Floats
    y: Floats

    def expected(self) -> dict[str, tuple[Floats, Floats]]:
        """quantity -> (value, scale of its error): y, and its derivatives by x, weight, alpha and shift."""
        largest = float(np.finfo(np.float64 if self.dtype == "float64" else np.float32).max)  # of the arithmetic
        x = np.clip(self.x, -largest, largest)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.abs(self.alpha * x) + np.abs(self.shift)
            of_f = np.abs(self.f) + np.nan_to_num(self.slope * np.minimum(terms, largest))
            u = self.alpha * x + self.shift
            of_slope = self.slope * (1 + np.nan_to_num(3 * np.abs(u) / (1 + u * u) * np.minimum(terms, largest)))
            weight = np.abs(self.weight)
            by_alpha = np.where(self.slope == 0, 0.0, x)
            return {
                "y": (self.y, weight * of_f + np.abs(self.bias)),
                "dx": (self.weight * self.alpha * self.slope, weight * np.abs(self.alpha) * of_slope),
                "dweight": (self.f, of_f),
                "dalpha": (self.weight * self.slope * by_alpha, weight * of_slope * np.abs(by_alpha)),
                "dshift": (self.weight * self.slope, weight * of_slope),
            }


@dataclass(frozen=True)
class NormBounds:
    """Largest error of y and of its derivatives, in ulps of their scales, for float32 and float64."""

    y: float
    derivatives: float


NORM_BOUNDS = {
    "numpy": NormBounds(3, 8),
    "torch": NormBounds(3, 8),
    "torch formula": NormBounds(4, 8),
    "torch.compile": NormBounds(4, 8),
    "jax": NormBounds(4, 8),
    "onnxruntime": NormBounds(4, 8),
    "keras-tensorflow": NormBounds(4, 8),
    "keras-jax": NormBounds(4, 8),
    "keras-torch": NormBounds(4, 8),
}
"""Framework -> largest errors of dyisru in float32 and float64."""


def load_norm(dtype: str) -> NormVectors:
    """The stored vectors of `dtype`."""
    with files("isrlu.testing").joinpath("norm_vectors.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row.pop("dtype") == dtype]
    if not rows:
        raise ValueError(f"no vectors for dtype {dtype!r}: known are {', '.join(FORMATS)}")
    return NormVectors(dtype, **{name: np.array([float(row[name]) for row in rows]) for name in rows[0]})


def check_norm(vectors: NormVectors, framework: str, **results: ArrayLike) -> None:
    """Raise AssertionError unless the `results` (y, dx, dweight, dalpha, dshift) are within the bounds.

    The derivatives are those of each element's y alone. A result below the smallest normal number may be flushed to 0,
    and so may the products of an f'(u) below it.
    """
    expected = vectors.expected()
    for name, actual in results.items():
        error = norm_error(vectors, name, actual)
        bound = getattr(NORM_BOUNDS[framework], "y" if name == "y" else "derivatives")
        if vectors.dtype in ("float16", "bfloat16"):
            share = 2.0 ** (FORMATS[vectors.dtype].digits - FORMATS["float32"].digits)
            bound = 0.5 + share * bound
        worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
        if not error[worst] <= bound:
            at = {key: float(getattr(vectors, key)[worst]) for key in ("x", "weight", "bias", "alpha", "shift")}
            raise AssertionError(
                f"{framework}, dyisru {vectors.dtype}, {name}: {np.asarray(actual).flat[worst]}, should be "
                f"{expected[name][0][worst]} ({error[worst]:.4g} ulps, allowed are {bound:.4g}), at {at}"
            )


def norm_error(vectors: NormVectors, name: str, actual: ArrayLike) -> Floats:
    """The error of each result, in ulps of its scale. Two NaNs have error 0, one NaN an infinite error."""
    true, scale = vectors.expected()[name]
    form = FORMATS[vectors.dtype]
    found = np.asarray(actual).astype(np.float64)
    if found.shape != true.shape:
        raise AssertionError(f"shape {found.shape}, expected {true.shape}")
    top = form.largest
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(np.clip(found, -top, top) - np.clip(true, -top, top)) / ulp(
            np.minimum(scale, top), vectors.dtype
        )
    flushed = (found == 0) & (np.abs(true) < form.smallest_normal)
    if name in ("dx", "dalpha", "dshift"):
        smallest = FORMATS["float64" if vectors.dtype == "float64" else "float32"].smallest_normal
        lost = np.maximum(np.abs(vectors.weight), 1) * vectors.slope < 2 * smallest
        flushed |= lost & (np.abs(found - true) <= np.abs(true))
    error = np.where(flushed, 0.0, error)
    both = np.isnan(found) & np.isnan(true)
    return np.where(np.isnan(found) | np.isnan(true), np.where(both, 0.0, np.inf), error)

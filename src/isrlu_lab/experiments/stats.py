"""Means, confidence intervals and paired tests over seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.05  # a difference is significant if its corrected p value is below this


@dataclass(frozen=True)
class Mean:
    """A mean over seeds and the half width of its 95 % confidence interval (Student's t; None for one seed)."""

    value: float
    half: float | None
    count: int


@dataclass(frozen=True)
class Difference:
    """Mean over seeds of a - b, the half width of its 95 % confidence interval, and the p value of a paired t-test.

    `half` and `p` are None for fewer than two seeds, and if all differences are equal but not 0.
    """

    value: float
    half: float | None
    p: float | None
    count: int

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < LEVEL

    def __str__(self) -> str:
        return f"{self.value:+.3f}" + ("" if self.half is None else f" ± {self.half:.3f}")


def mean(values: Sequence[float]) -> Mean:
    """The mean and its confidence interval.

    >>> mean([1.0, 2.0, 3.0])
    Mean(value=2.0, half=2.484..., count=3)
    """
    return Mean(float(np.mean(values)), _half_width(values), len(values))


def mean_or_none(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean and the half width of its confidence interval, each None if there are too few values."""
    found = mean(values) if values else None
    return (found.value, found.half) if found else (None, None)


def paired(first: Mapping[Any, float], second: Mapping[Any, float]) -> Difference:
    """first - second, paired over the keys (seeds) that both have."""
    keys = [key for key in first if key in second]
    if not keys:
        return Difference(math.nan, None, None, 0)
    differences = np.array([first[key] - second[key] for key in keys])
    value = float(differences.mean())
    if len(keys) < 2:
        return Difference(value, None, None, len(keys))
    if np.ptp(differences) <= 1e-9 * max(1.0, abs(value)):  # t is 0/0 or infinite
        if value == 0.0:
            return Difference(0.0, 0.0, 1.0, len(keys))
        return Difference(value, None, None, len(keys))  # quantized values: equal differences give no spread
    p = float(stats.ttest_1samp(differences, 0.0).pvalue)
    return Difference(value, _half_width(differences), p, len(keys))


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """The differences with p values corrected for multiple testing (Benjamini-Hochberg)."""
    tested = [each.p for each in differences if each.p is not None]
    adjusted = iter(stats.false_discovery_control(tested)) if tested else iter(())
    return [
        each if each.p is None else Difference(each.value, each.half, float(next(adjusted)), each.count)
        for each in differences
    ]


def better(each: Difference, margin: float) -> bool | None:
    """Whether the first is better than the second.

    True or False if the difference is significant. Otherwise False if the confidence interval rules out an advantage
    of `margin`, and None if there are too few seeds to decide.

    >>> better(Difference(0.05, 0.02, 0.001, 5), 0.1), better(Difference(0.05, 0.07, 0.1, 5), 0.1)
    (True, None)
    >>> better(Difference(0.01, 0.05, 0.5, 5), 0.1)
    False
    """
    if each.half is None:
        return None
    if each.significant:
        return each.value > 0
    return None if each.value + each.half >= margin else False


def no_worse(each: Difference, margin: float) -> bool | None:
    """Whether the first is worse than the second by less than `margin` (non-inferiority test).

    True if the whole confidence interval is above -margin, False if it is below. None if there are too few seeds to
    decide.

    >>> no_worse(Difference(-0.1, 0.1, 0.5, 5), 0.3), no_worse(Difference(-0.1, 0.3, 0.5, 5), 0.3)
    (True, None)
    >>> no_worse(Difference(-0.5, 0.1, 0.01, 5), 0.3)
    False
    """
    if each.half is None:
        return None
    if each.value - each.half > -margin:
        return True
    return False if each.value + each.half < -margin else None


def alike(differences: Sequence[Difference], margin: float) -> bool | None:
    """Whether all differences are negligible (equivalence test).

    False if one is significant. True if all confidence intervals are within ±margin. None if there are too few seeds
    to decide.

    >>> alike([Difference(0.01, 0.05, 0.5, 5)], 0.1), alike([Difference(0.05, 0.07, 0.1, 5)], 0.1)
    (True, None)
    """
    if any(each.half is None for each in differences):
        return None
    if any(each.significant for each in differences):
        return False
    return all(abs(each.value) + (each.half or 0.0) <= margin for each in differences) or None


def all_of(verdicts: Iterable[bool | None]) -> bool | None:
    """False if any verdict is False, else None if any is None, else True."""
    found = list(verdicts)
    return False if False in found else None if None in found else True


def band(curves: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lower bound and upper bound of the 95 % confidence interval of several curves of equal length."""
    values = np.asarray(curves, dtype=float)
    middle = values.mean(axis=0)
    half = np.array([_half_width(column) or 0.0 for column in values.T])
    return middle, middle - half, middle + half


def _half_width(values: Sequence[float] | np.ndarray) -> float | None:
    """Half width of the 95 % confidence interval of the mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))

"""isrlu.numpy against np.maximum and against the formula written in NumPy expressions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import isrlu.numpy as inp
from isrlu.testing import check, expect
from isrlu_lab.measure.kernel_bench import ends
from isrlu_lab.measure.timer import measure, ratio

SIZES = (16, 1024, 262_144, 16_777_216)
Array = NDArray[Any]


def formula(x: Array, out: Array) -> Array:
    """The paper's ISRLU with alpha = 1, as one would write it."""
    out[...] = np.where(x >= 0, x, x / np.sqrt(1 + x * x))
    return out


def elu(x: Array, out: Array) -> Array:
    """ELU with alpha = 1, as one would write it."""
    out[...] = np.where(x >= 0, x, np.expm1(np.minimum(x, 0)))
    return out


CONTENDERS: dict[str, Callable[[Array, Array], Any]] = {
    "np.maximum": lambda x, y: np.maximum(x, 0, out=y),
    "np.tanh": lambda x, y: np.tanh(x, out=y),
    "elu formula": elu,
    "isrlu formula": formula,
    "isrlu": lambda x, y: inp.isrlu(x, out=y),
    "isrlu approx": lambda x, y: inp.isrlu(x, out=y, method="approx"),
    "isru": lambda x, y: inp.isru(x, out=y),
}


@dataclass(frozen=True)
class Row:
    """A measured contender: seconds per call, and relative to np.maximum in the same rounds."""

    size: int
    contender: str
    seconds: float
    spread: float  # half the interquartile range, relative
    of_maximum: float


def run(
    sizes: Iterable[int] = SIZES, *, rounds: int = 25, progress: Callable[[str], None] = lambda _: None
) -> list[Row]:
    """Time every contender on float32 arrays, half of them negative; the result goes into an array that exists."""
    rows: list[Row] = []
    for size in sizes:
        progress(f"{size:,} elements")
        x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        y = np.empty_like(x)
        check(expect("isrlu", ends(x)), "numpy", f=ends(inp.isrlu(x)))
        calls = {name: (lambda f=f, x=x, y=y: f(x, y)) for name, f in CONTENDERS.items()}
        samples = measure(calls, rounds=rounds)
        for name, sample in samples.items():
            rows.append(Row(size, name, sample.median, sample.spread, ratio(samples, name, "np.maximum")))
    return rows

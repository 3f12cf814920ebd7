"""isrlu.numpy against np.maximum and against the formula written in NumPy expressions."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import isrlu.numpy as inp
from isrlu.testing import check, expect
from isrlu_lab.measure.kernel_bench import ends
from isrlu_lab.measure.measurement import Measurement, seconds_figures
from isrlu_lab.measure.printer import NS_PER_ELEMENT, SPREAD, US_PER_CALL, Layout, Tables, label_columns, ratio_column
from isrlu_lab.measure.timer import measure

SIZES = (16, 1024, 262_144, 16_777_216)
Array = NDArray[Any]


def formula(x: Array, out: Array) -> Array:
    """The paper's ISRLU with alpha = 1, in plain NumPy."""
    out[...] = np.where(x >= 0, x, x / np.sqrt(1 + x * x))
    return out


def elu(x: Array, out: Array) -> Array:
    """ELU with alpha = 1, in plain NumPy."""
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


LAYOUT = Layout(
    title=lambda m: f"{m.size:,} elements",
    labels=label_columns("contender"),
    figures=[US_PER_CALL, NS_PER_ELEMENT, ratio_column("of np.maximum", "of_maximum"), SPREAD],
)


def bench(*, size: list[int] | None, rounds: int, progress: Callable[[str], None]) -> Tables:
    """`isrlu bench numpy`."""
    return [(LAYOUT, run(size or SIZES, rounds=rounds, progress=progress))]


def run(
    sizes: Iterable[int] = SIZES, *, rounds: int = 25, progress: Callable[[str], None] = lambda _: None
) -> list[Measurement]:
    """Time every contender on float32 arrays, half of the elements negative, with an output array that exists."""
    found: list[Measurement] = []
    for size in sizes:
        progress(f"{size:,} elements")
        x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        y = np.empty_like(x)
        check(expect("isrlu", ends(x)), "numpy", f=ends(inp.isrlu(x)))
        calls = {name: (lambda f=f, x=x, y=y: f(x, y)) for name, f in CONTENDERS.items()}
        samples = measure(calls, rounds=rounds)
        for name in samples:
            figures = seconds_figures(samples, name, relative_to={"of_maximum": "np.maximum"})
            found.append(Measurement({"size": size, "contender": name}, figures))
    return found

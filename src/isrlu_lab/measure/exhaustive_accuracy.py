"""The error of every kernel: over all float32, float16 and bfloat16 inputs, and over random float64 inputs."""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import isrlu_lab._measure as _measure
from isrlu._checks import METHODS
from isrlu.testing import derivative, reference, ulp_error
from isrlu_lab.environment import threads
from isrlu_lab.measure.measurement import Measurement
from isrlu_lab.measure.printer import Column, Layout, label_columns

ALPHAS = (1.0, 3.0, 0.1)
INFINITY_BITS = 0x7F80_0000
PIECE = 1 << 20  # bit patterns in one task
Progress = Callable[[float], None]  # takes the finished share of all work, from 0 to 1

ERRORS = (
    Column("max ulp", lambda m: f"{m.max_ulps:.4g}"),
    Column("at x =", lambda m: f"{m.worst_input:.7g}"),
    Column("correctly rounded", lambda m: f"{m.correct:.1%}"),
)
LAYOUT = Layout(
    title=lambda m: f"{m.dtype}, alpha {m.alpha:g}",
    labels=label_columns("simd", "method", "quantity"),
    figures=[*ERRORS, Column("inputs", lambda m: f"{m.inputs:,}")],
    markdown=Layout(  # the table of docs/accuracy.md
        title=lambda m: "",
        labels=[
            Column("dtype", lambda m: m.dtype),
            Column("instruction set", lambda m: m.simd),
            Column("method", lambda m: m.method),
            Column("alpha", lambda m: f"{m.alpha:g}"),
        ],
        figures=[Column("{}, max ulp", ERRORS[0].text), *ERRORS[1:]],
        across=lambda m: m.quantity,
    ),
)


def _measurement(
    dtype: str,
    simd: str,
    method: str,
    quantity: str,
    alpha: float,
    ulps: float,
    worst: float,
    correct: float,
    inputs: int,
) -> Measurement:
    """quantity: "f" or "f'"; ulps: the largest error, at input `worst`; correct: share of correctly rounded results."""
    return Measurement(
        {"dtype": dtype, "simd": simd, "method": method, "quantity": quantity, "alpha": alpha},
        {"max_ulps": ulps, "worst_input": worst, "correct": correct, "inputs": inputs},
    )


def run(simds: Iterable[str], *, quick: bool = False, progress: Progress = lambda _: None) -> list[Measurement]:
    """The whole table for ISRLU. `quick` tests one float32 in 256 and fewer float64."""
    simds = list(simds)
    found = float32(simds, quick=quick, progress=progress)
    for simd in simds:
        found += small(simd, "float16") + small(simd, "bfloat16") + float64(simd, samples=10**5 if quick else 2 * 10**6)
    return found


def float32(
    simds: list[str],
    methods: Iterable[str] = METHODS,
    *,
    quick: bool = False,
    progress: Progress = lambda _: None,
) -> list[Measurement]:
    """Every float32 but NaN and +infinity; the reference is float64."""
    candidates = [(simd, method) for simd in simds for method in methods]
    sweeps = [(quantity, alpha) for alpha in ALPHAS for quantity in ("f", "f'")]
    pieces = list(_pieces(quick))
    total, done = len(sweeps) * sum(count for _, count in pieces), 0
    found = []
    with ThreadPoolExecutor(threads()) as pool:
        for quantity, alpha in sweeps:
            totals = [(0.0, math.nan, 0)] * len(candidates)  # largest error in ulps, its input, correctly rounded
            inputs = 0

            def measure_piece(piece: tuple[int, int], quantity: str = quantity, alpha: float = alpha) -> Any:
                return piece[1], _measure.exhaustive_error(candidates, "isrlu", quantity == "f'", alpha, *piece)

            for count, results in pool.map(measure_piece, pieces):
                totals = [_merge(*pair) for pair in zip(totals, results, strict=True)]
                inputs, done = inputs + count, done + count
                progress(done / total)
            for candidate, (ulps, worst, correct) in zip(candidates, totals, strict=True):
                share = correct / inputs
                found.append(_measurement("float32", *candidate, quantity, alpha, ulps, worst, share, inputs))
    return found


def _pieces(quick: bool) -> Iterator[tuple[int, int]]:
    """(first bit pattern, count): all finite numbers and -infinity, or an even sample of them."""
    for sign, end in ((0, INFINITY_BITS), (0x8000_0000, INFINITY_BITS + 1)):
        for first in range(0, end, PIECE):
            count = min(PIECE, end - first)
            yield sign + first, math.ceil(count / 256) if quick else count


def _merge(total: tuple[float, float, int], piece: tuple[float, float, int]) -> tuple[float, float, int]:
    """The larger error with its input, and the sum of correctly rounded results."""
    ulps, worst = piece[:2] if piece[0] > total[0] else total[:2]
    return ulps, worst, total[2] + piece[2]


def small(simd: str, dtype: str) -> list[Measurement]:
    """Every number of a 16-bit type, method full."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    x = np.arange(2**16, dtype=np.uint16).view(kind)
    with np.errstate(invalid="ignore"):  # ml_dtypes warns of the NaN that isnan is given
        x = x[~np.isnan(x)]
    return [_compare(simd, "full", dtype, quantity, alpha, x) for alpha in ALPHAS for quantity in ("f", "f'")]


def float64(simd: str, samples: int) -> list[Measurement]:
    """Random negative float64, near 1 and of all magnitudes: the largest error found, a lower bound of the true one."""
    random = np.random.default_rng(0)
    near, far = random.standard_normal(samples) * 2, 10 ** random.uniform(-18, 18, samples)
    x = -np.abs(np.concatenate([near, far]))
    return [_compare(simd, "full", "float64", quantity, alpha, x) for alpha in ALPHAS for quantity in ("f", "f'")]


def _compare(simd: str, method: str, dtype: str, quantity: str, alpha: float, x: NDArray[Any]) -> Measurement:
    alpha = alpha if dtype == "float64" else float(np.float32(alpha))
    y, ones = np.empty_like(x), np.ones_like(x)
    job = _measure.TimedKernel(simd, "isrlu", method, dtype, quantity == "f'")
    job.run(x.ctypes.data, ones.ctypes.data, y.ctypes.data, x.size, alpha)
    exact = (reference if quantity == "f" else derivative)("isrlu", x.astype(np.float64), alpha, extended=True)
    errors = ulp_error(y, exact, dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        correct = float(np.mean(exact.astype(np.float64).astype(y.dtype) == y))
    worst = int(np.argmax(errors))
    largest, at = float(errors[worst]), float(x[worst])
    return _measurement(dtype, simd, method, quantity, alpha, largest, at, correct, x.size)

"""How accurate every kernel is: all 2^32 float32 inputs, all float16 and bfloat16 inputs, a search in float64."""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import isrlu_lab._measure as _measure
from isrlu._checks import METHODS
from isrlu.testing import derivative, reference, ulp_error
from isrlu_lab.environment import threads

ALPHAS = (1.0, 3.0, 0.1)
INFINITY_BITS = 0x7F80_0000
PIECE = 1 << 20  # bit patterns that one task sweeps
Progress = Callable[[float], None]  # told the finished share of all work, from 0 to 1


@dataclass(frozen=True)
class Finding:
    """One row of the accuracy table."""

    dtype: str
    simd: str
    method: str
    quantity: str  # "f" or "f'"
    alpha: float
    max_ulps: float
    worst_input: float
    correct: float  # share that is correctly rounded
    inputs: int  # how many were tried


def run(simds: Iterable[str], *, quick: bool = False, progress: Progress = lambda _: None) -> list[Finding]:
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
) -> list[Finding]:
    """Every float32 but NaN and +infinity; the reference is float64."""
    candidates = [(simd, method) for simd in simds for method in methods]
    sweeps = [(quantity, alpha) for alpha in ALPHAS for quantity in ("f", "f'")]
    pieces = list(_pieces(quick))
    total, done = len(sweeps) * sum(count for _, count in pieces), 0
    found = []
    with ThreadPoolExecutor(threads()) as pool:
        for quantity, alpha in sweeps:
            rows = [Finding("float32", *c, quantity, alpha, 0.0, math.nan, 0.0, 0) for c in candidates]

            def measure_piece(piece: tuple[int, int], quantity: str = quantity, alpha: float = alpha) -> Any:
                return piece[1], _measure.exhaustive_error(candidates, "isrlu", quantity == "f'", alpha, *piece)

            for count, results in pool.map(measure_piece, pieces):
                rows = [_merge(row, count, *result) for row, result in zip(rows, results, strict=True)]
                done += count
                progress(done / total)
            found += [replace(row, correct=row.correct / row.inputs) for row in rows]
    return found


def _pieces(quick: bool) -> Iterator[tuple[int, int]]:
    """(first bit pattern, count): all finite numbers and -infinity, or an even sample of them."""
    for sign, end in ((0, INFINITY_BITS), (0x8000_0000, INFINITY_BITS + 1)):
        for first in range(0, end, PIECE):
            count = min(PIECE, end - first)
            yield sign + first, math.ceil(count / 256) if quick else count


def _merge(row: Finding, count: int, max_ulps: float, worst_input: float, correct: int) -> Finding:
    if max_ulps > row.max_ulps:
        row = replace(row, max_ulps=max_ulps, worst_input=worst_input)
    return replace(row, correct=row.correct + correct, inputs=row.inputs + count)


def small(simd: str, dtype: str) -> list[Finding]:
    """Every number of a 16-bit type, method full."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    x = np.arange(2**16, dtype=np.uint16).view(kind)
    with np.errstate(invalid="ignore"):  # ml_dtypes asks its NaN whether they are
        x = x[~np.isnan(x)]
    return [_compare(simd, "full", dtype, quantity, alpha, x) for alpha in ALPHAS for quantity in ("f", "f'")]


def float64(simd: str, samples: int) -> list[Finding]:
    """Random float64 of all sizes and around 1: the largest error found, a lower bound of the true one."""
    random = np.random.default_rng(0)
    near, far = random.standard_normal(samples) * 2, 10 ** random.uniform(-18, 18, samples)
    x = -np.abs(np.concatenate([near, far]))
    return [_compare(simd, "full", "float64", quantity, alpha, x) for alpha in ALPHAS for quantity in ("f", "f'")]


def _compare(simd: str, method: str, dtype: str, quantity: str, alpha: float, x: NDArray[Any]) -> Finding:
    alpha = alpha if dtype == "float64" else float(np.float32(alpha))
    y, ones = np.empty_like(x), np.ones_like(x)
    job = _measure.TimedKernel(simd, "isrlu", method, dtype, quantity == "f'")
    job.run(x.ctypes.data, ones.ctypes.data, y.ctypes.data, x.size, alpha)
    exact = (reference if quantity == "f" else derivative)("isrlu", x.astype(np.float64), alpha, extended=True)
    errors = ulp_error(y, exact, dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        correct = float(np.mean(exact.astype(np.float64).astype(y.dtype) == y))
    worst = int(np.argmax(errors))
    inputs = x.size
    return Finding(dtype, simd, method, quantity, alpha, float(errors[worst]), float(x[worst]), correct, inputs)


def markdown(findings: list[Finding]) -> str:
    """The table of docs/accuracy.md."""
    columns = ["dtype", "instruction set", "method", "alpha"]
    columns += [title for q in ("f", "f'") for title in (f"{q}, max ulp", "at x =", "correctly rounded")]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    slopes = {(f.dtype, f.simd, f.method, f.alpha): f for f in findings if f.quantity == "f'"}
    for f in findings:
        if f.quantity == "f":
            cells = [f.dtype, f.simd, f.method, f"{f.alpha:g}"]
            for one in (f, slopes[f.dtype, f.simd, f.method, f.alpha]):
                cells += [f"{one.max_ulps:.4g}", f"{one.worst_input:.7g}", f"{one.correct:.1%}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)

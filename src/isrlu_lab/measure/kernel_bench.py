"""The kernels of each instruction set against what a user would take instead, in ns and cycles per element."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import isrlu_lab._measure as _measure
from isrlu._checks import METHODS
from isrlu.testing import FUNCTIONS, check, derivative, expect, reference, root_error
from isrlu_lab.measure.timer import Sample, measure_loops

SIZES = (4096, 65_536, 1_048_576, 16_777_216)  # float32 in first-level cache, second-level, third-level, memory
Floats = NDArray[Any]


@dataclass(frozen=True)
class Contender:
    """One row of the benchmark: a kernel, and how it obtains its inverse square root."""

    name: str
    method: str = "full"
    dtype: str = "float32"

    def __str__(self) -> str:
        words = [self.name, *[self.method] * (self.name in ("isrlu", "isru", "isru_sigmoid", "rsqrt"))]
        return " ".join(words + [self.dtype] * (self.dtype != "float32"))


BASELINES = tuple(Contender(name) for name in ("copy", "relu", "elu", "tanh", "sigmoid", "exp", "invsqrt"))
FORWARD = (
    *BASELINES,
    *(Contender("isrlu", method) for method in METHODS),
    *(Contender("isru", method) for method in METHODS),
    Contender("isru_sigmoid"),
    *(Contender("rsqrt", method) for method in METHODS),
    *(Contender(name, dtype=dtype) for name in ("isrlu",) for dtype in ("float16", "bfloat16", "float64")),
)
BACKWARD = (
    *(Contender(name) for name in ("relu", "elu", "tanh", "sigmoid")),
    *(Contender("isrlu", method) for method in METHODS),
    Contender("isru"),
    *(Contender(name, dtype=dtype) for name in ("isrlu",) for dtype in ("float16", "bfloat16", "float64")),
)


@dataclass(frozen=True)
class Row:
    """A measured contender."""

    simd: str
    size: int
    direction: str
    contender: str
    ns: float
    cycles: float
    spread: float  # half the interquartile range, relative


def run(
    simds: Iterable[str],
    sizes: Iterable[int] = SIZES,
    *,
    rounds: int = 25,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Measure every contender, forward and backward."""
    rows: list[Row] = []
    for simd in simds:
        for size in sizes:
            for direction, contenders in (("forward", FORWARD), ("backward", BACKWARD)):
                progress(f"{simd}, {size:,} elements, {direction}")
                samples, clock = time_kernels(simd, contenders, size, backward=direction == "backward", rounds=rounds)
                for contender, sample in samples.items():
                    seconds = sample.median / size
                    cells = (str(contender), seconds * 1e9, seconds * clock, sample.spread)
                    rows.append(Row(simd, size, direction, *cells))
    return rows


def time_kernels(
    simd: str,
    contenders: Sequence[Contender],
    size: int,
    *,
    backward: bool = False,
    alpha: float = 1.0,
    rounds: int = 25,
) -> tuple[dict[Contender, Sample], float]:
    """Seconds per call on `size` elements, half of them negative, and the clock in Hz, all from the same rounds.

    Each contender's result is compared with float64 first.
    """
    clocks: list[float] = []
    jobs: dict[str, Callable[[int], float]] = {"clock": partial(_clock, clocks)}
    for contender in contenders:
        jobs[str(contender)] = job(simd, contender, size, backward=backward, alpha=alpha)
    samples = measure_loops(jobs, rounds=rounds)
    return {contender: samples[str(contender)] for contender in contenders}, statistics.median(clocks)


def job(
    simd: str, contender: Contender, size: int, *, backward: bool = False, alpha: float = 1.0
) -> Callable[[int], float]:
    """A contender on operands of its own, compared with float64 first: called with a number of loops, it times them."""
    native = _measure.TimedKernel(simd, contender.name, contender.method, contender.dtype, backward)
    x, grad, y = _operands(contender, size)
    call = partial(native.run, x.ctypes.data, grad.ctypes.data, y.ctypes.data, size, alpha)
    call(1)
    _check(contender, backward, alpha, x, grad, y, simd)
    return _Holding(call, (x, grad, y))


class _Holding:
    """A call on raw addresses, together with the arrays that it points into."""

    def __init__(self, call: Callable[[int], float], arrays: tuple[Floats, ...]) -> None:
        self.call, self.arrays = call, arrays

    def __call__(self, loops: int) -> float:
        return self.call(loops)


def _clock(clocks: list[float], loops: int) -> float:
    clocks.append(_measure.clock())
    return 1e-3 * loops  # a measurement of its own: no need to be timed again


def _operands(contender: Contender, size: int) -> tuple[Floats, Floats, Floats]:
    """Input, gradient and output, aligned to cache lines and at different places within their pages.

    Arrays at the same place of a page look alike to the store buffer, which then holds back loads: a cost of the
    addresses and not of the function.
    """
    random = np.random.default_rng(0)
    x, grad = random.standard_normal((2, size))
    if contender.name in ("invsqrt", "rsqrt"):
        x = np.abs(x) + 0.1
    dtype = _numpy_dtype(contender.dtype)
    return placed(x, dtype, 0), placed(grad, dtype, 1344), placed(np.zeros(size), dtype, 2688)


def placed(values: Floats, dtype: Any, offset: int) -> Floats:
    """A copy of `values` that begins `offset` bytes into a page."""
    page = 4096
    memory = np.empty(values.size * dtype.itemsize + 2 * page, np.uint8)
    start = -memory.ctypes.data % page + offset
    array = memory[start : start + values.size * dtype.itemsize].view(dtype)
    array[:] = values
    return array


def ends(array: Floats) -> Floats:
    """The first and last 65,536 elements: enough to compare, where an array fills the memory."""
    return array if array.size <= 2 << 16 else np.concatenate([array[: 1 << 16], array[-1 << 16 :]])


def _numpy_dtype(name: str) -> Any:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


# Rivals in float64: (f(x), f'(x)). Ours are in isrlu.testing.
_RIVALS: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {
    "copy": lambda x: (x, np.ones_like(x)),
    "relu": lambda x: (np.maximum(x, 0), (x > 0) * 1.0),
    "elu": lambda x: (np.where(x < 0, np.expm1(x), x), np.where(x < 0, np.exp(x), 1)),
    "exp": lambda x: (np.exp(x), np.exp(x)),
    "tanh": lambda x: (np.tanh(x), 1 - np.tanh(x) ** 2),
    "sigmoid": lambda x: (1 / (1 + np.exp(-x)), np.exp(-x) / (1 + np.exp(-x)) ** 2),
    "invsqrt": lambda x: (reference("rsqrt", x), derivative("rsqrt", x)),
}


def _check(
    contender: Contender, backward: bool, alpha: float, x: Floats, grad: Floats, y: Floats, simd: str | None = None
) -> None:
    """Raise unless y is f(x), or grad f'(x): ours within the bounds of isrlu.testing, rivals to 1e-5."""
    x, grad, y = ends(x), ends(grad), ends(y)
    if contender.name in FUNCTIONS:
        results = {"upstream": grad, "dfdx": y} if backward else {"f": y}
        check(expect(contender.name, x, alpha, contender.dtype), "numpy", contender.method, simd=simd, **results)
        return
    wide = x.astype(np.float64)
    if contender.name == "rsqrt":
        value, tolerance = reference("rsqrt", wide), root_error(contender.method, simd) + 1e-6
    else:
        value, slope = _RIVALS[contender.name](wide)
        value, tolerance = grad.astype(np.float64) * slope if backward else value, 1e-5
    np.testing.assert_allclose(y.astype(np.float64), value, rtol=tolerance, atol=1e-6, err_msg=str(contender))


def markdown(rows: list[Row]) -> str:
    """The tables of docs/kernels.md: one row per contender and instruction set, one column per size."""
    lines: list[str] = []
    sizes = sorted({row.size for row in rows})
    for direction in ("forward", "backward"):
        found = {(row.contender, row.simd, row.size): row for row in rows if row.direction == direction}
        lines += [f"### {direction.capitalize()}", ""]
        lines.append(f"| | | {' | '.join(f'{size:,}' for size in sizes)} |")
        lines.append("|---" * (2 + len(sizes)) + "|")
        for contender, simd in dict.fromkeys((c, s) for c, s, _ in found):
            cells = []
            for size in sizes:
                row, relu = found[contender, simd, size], found["relu", simd, size]
                cells.append(f"{row.ns:.3f} ns, {row.cycles:.2f} cycles, {row.ns / relu.ns:.2f}x")
            lines.append(f"| {contender} | {simd} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip()

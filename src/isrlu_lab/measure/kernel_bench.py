"""The kernels of each instruction set against ReLU, ELU, tanh and other rivals, in ns and cycles per element."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import isrlu_lab._measure as _measure
from isrlu._checks import METHODS
from isrlu.testing import FUNCTIONS, check, derivative, expect, reference, root_error
from isrlu_lab.measure import cycle_timer
from isrlu_lab.measure.measurement import Measurement, ns_figures
from isrlu_lab.measure.printer import OF_RELU, SPREAD, Column, Layout, Tables, label_columns
from isrlu_lab.measure.timer import Sample

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


LAYOUT = Layout(
    title=lambda m: f"{m.simd}, {m.size:,} elements, {m.direction}",
    labels=label_columns("contender"),
    figures=[
        Column("ns/element", lambda m: f"{m.ns:.3f}"),
        Column("cycles/element", lambda m: f"{m.cycles:.2f}"),
        OF_RELU,
        SPREAD,
    ],
    markdown=Layout(  # the tables of docs/kernels.md
        title=lambda m: m.direction.capitalize(),
        labels=label_columns("contender", "simd"),
        figures=[Column("{:,}", lambda m: f"{m.ns:.3f} ns, {m.cycles:.2f} cycles, {m.of_relu:.2f}x")],
        across=lambda m: m.size,
    ),
)


def bench(*, simd: list[str], size: list[int] | None, rounds: int, progress: Callable[[str], None]) -> Tables:
    """`isrlu bench kernels`."""
    return [(LAYOUT, run(simd, size or SIZES, rounds=rounds, progress=progress))]


def run(
    simds: Iterable[str],
    sizes: Iterable[int] = SIZES,
    *,
    rounds: int = 25,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Measurement]:
    """Measure every contender, forward and backward."""
    found: list[Measurement] = []
    for simd in simds:
        for size in sizes:
            for direction, contenders in (("forward", FORWARD), ("backward", BACKWARD)):
                progress(f"{simd}, {size:,} elements, {direction}")
                samples = time_kernels(simd, contenders, size, backward=direction == "backward", rounds=rounds)
                for name in map(str, contenders):
                    labels = {"simd": simd, "size": size, "direction": direction, "contender": name}
                    figures = ns_figures(samples, name, elements=size, relative_to={"of_relu": "relu"})
                    figures["cycles"] = cycle_timer.cycles(samples, name, size)
                    found.append(Measurement(labels, figures))
    return found


def time_kernels(
    simd: str,
    contenders: Sequence[Contender],
    size: int,
    *,
    backward: bool = False,
    alpha: float = 1.0,
    rounds: int = 25,
) -> dict[str, Sample]:
    """Seconds per call on `size` elements, half of them negative, and the clock, all from the same rounds.

    Each contender's result is compared with float64 first.
    """
    jobs = {str(each): job(simd, each, size, backward=backward, alpha=alpha) for each in contenders}
    return cycle_timer.measure(jobs, rounds=rounds)


def job(
    simd: str, contender: Contender, size: int, *, backward: bool = False, alpha: float = 1.0
) -> Callable[[int], float]:
    """A contender on its own operands, compared with float64 first: job(loops) is the seconds of so many runs."""
    native = _measure.TimedKernel(simd, contender.name, contender.method, contender.dtype, backward)
    x, grad, y = _operands(contender, size)
    call = partial(native.run, x.ctypes.data, grad.ctypes.data, y.ctypes.data, size, alpha)
    call(1)
    _check(contender, backward, alpha, x, grad, y, simd)
    return _Holding(call, (x, grad, y))


class _Holding:
    """A call on raw addresses that keeps its arrays alive."""

    def __init__(self, call: Callable[[int], float], arrays: tuple[Floats, ...]) -> None:
        self.call, self.arrays = call, arrays

    def __call__(self, loops: int) -> float:
        return self.call(loops)


def _operands(contender: Contender, size: int) -> tuple[Floats, Floats, Floats]:
    """Input, gradient and output, aligned to cache lines, at different offsets within their pages.

    At equal offsets the CPU takes a load for dependent on an earlier store (4K aliasing) and delays it: a cost of the
    addresses, not of the function.
    """
    random = np.random.default_rng(0)
    x, grad = random.standard_normal((2, size))
    if contender.name in ("invsqrt", "rsqrt"):
        x = np.abs(x) + 0.1
    dtype = _numpy_dtype(contender.dtype)
    return placed(x, dtype, 0), placed(grad, dtype, 1344), placed(np.zeros(size), dtype, 2688)


def placed(values: Floats, dtype: Any, offset: int) -> Floats:
    """A copy of `values` that starts `offset` bytes into a page of 4,096 bytes."""
    page = 4096
    memory = np.empty(values.size * dtype.itemsize + 2 * page, np.uint8)
    start = -memory.ctypes.data % page + offset
    array = memory[start : start + values.size * dtype.itemsize].view(dtype)
    array[:] = values
    return array


def ends(array: Floats) -> Floats:
    """The first and last 65,536 elements, which is enough to check a large array."""
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

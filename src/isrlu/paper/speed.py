"""What tables 1 to 3 share: interleaved timing of loops that run inside C++, the clock being one of the contenders."""

import statistics
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from isrlu import _core
from isrlu.bench.timer import Sample, ratio

Floats = npt.NDArray[np.float32]
Run = Callable[[int], float]
"""run(loops): seconds that `loops` calls took, timed by the contender itself."""

CLOCK = "clock"
ROUNDS = {False: 25, True: 101}
"""Rounds of a measurement: quick, full."""


def measure(contenders: Mapping[str, Run], *, full: bool, slice_seconds: float = 1e-3) -> dict[str, Sample]:
    """Seconds per call of each contender, in turns; under `CLOCK`, seconds per cycle in the same rounds."""
    loops = {name: _loops_for(run, slice_seconds) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in (*contenders, CLOCK)}
    for _ in range(ROUNDS[full]):
        times[CLOCK].append(1 / _core.clock())
        for name, run in contenders.items():
            times[name].append(run(loops[name]) / loops[name])
    return {name: Sample(tuple(values)) for name, values in times.items()}


def cycles(samples: Mapping[str, Sample], name: str, elements: int) -> float:
    """Cycles per element: each round's time over the cycle time that was measured in that round."""
    return ratio(samples, name, CLOCK) / elements


def clock_ghz(samples: Mapping[str, Sample]) -> float:
    """The clock in the rounds of this measurement."""
    return round(1e-9 / samples[CLOCK].median, 3)


def job(simd: str, name: str, src: Floats, dst: Floats, method: str = "full") -> Run:
    """A contender: one function of `isrlu._core`, in one instruction set, on these arrays."""
    work = _core.Job(simd, name, method)
    return lambda loops: work.run(src.ctypes.data, 0, dst.ctypes.data, src.size, 1.0, loops)


def python_loop(call: Callable[[], object]) -> Run:
    """A contender that can only be called from Python (MKL, torch): use it on arrays that outweigh the call."""
    from time import perf_counter

    def run(loops: int) -> float:
        start = perf_counter()
        for _ in range(loops):
            call()
        return perf_counter() - start

    return run


def check(name: str, got: Floats, want: npt.NDArray[np.float64], tolerance: float) -> None:
    """Refuse to time a contender that computes something else."""
    error = float(np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-3)))
    if not error <= tolerance:
        raise RuntimeError(f"{name} is wrong by {error:.1e} (accepted: {tolerance:.0e}), so it is not timed")


def half_negative(size: int) -> Floats:
    """Normally distributed inputs: half of them negative, as in the paper."""
    return np.random.default_rng(0).standard_normal(size, dtype=np.float32)


def placed(src: Floats) -> tuple[Floats, Floats]:
    """`src` and an array of its size for the results, both at the start of a cache line and half a page apart.

    Where source and destination agree in the last 12 bits of their addresses, a load waits for the store before it, and
    times double by accident of the allocator.
    """
    size = src.size + -src.size % 1024 + 512  # float32: whole pages and a half
    both = np.empty(2 * size + 1024, np.float32)
    start = -both.ctypes.data % 4096 // 4
    first, second = (both[start + n * size :][: src.size] for n in (0, 1))
    first[:] = src.ravel()
    return first, second


def percent(spread: float) -> float:
    """A spread for a table's cell."""
    return round(100 * spread, 1)


def _loops_for(run: Run, seconds: float) -> int:
    run(1)  # warms up
    loops = 1
    while (taken := run(loops)) < seconds / 2:
        loops *= 2
    return max(1, round(loops * seconds / taken))


def median_ratio(samples: Mapping[str, Sample], slow: str, fast: str) -> tuple[float, float]:
    """(median, half the interquartile range relative to it) of the rounds' time(slow) / time(fast)."""
    quotients = [a / b for a, b in zip(samples[slow].seconds, samples[fast].seconds, strict=True)]
    low, middle, high = statistics.quantiles(quotients, n=4)
    return middle, (high - low) / 2 / middle

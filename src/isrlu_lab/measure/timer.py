"""Interleaved timing: every round times each contender once, so that a slow phase of the machine affects all alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Sample:
    """Seconds per call of one contender, over all rounds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the interquartile range, relative to the median."""
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median


def measure(
    contenders: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 25,
    slice_seconds: float = 2e-3,
    synchronize: Callable[[], object] = lambda: None,
    warm_up: bool = False,
) -> dict[str, Sample]:
    """Time each contender `rounds` times, interleaved; a time is the mean over a loop of about `slice_seconds`.

    `synchronize` waits for the device, where calls only put work into its queue. `warm_up`: a loop starts with a call
    that is not timed. It finds in the caches what the contender before it has left. Without it, that falls on one call
    of one for a slow contender and on one of many for a fast one.
    """
    timed = {name: partial(_time, call, synchronize, warm_up) for name, call in contenders.items()}
    return measure_loops(timed, rounds=rounds, slice_seconds=slice_seconds)


def measure_loops(
    contenders: Mapping[str, Callable[[int], float]], *, rounds: int = 25, slice_seconds: float = 2e-3
) -> dict[str, Sample]:
    """The same for contenders that loop themselves: called with a number of loops, they return the seconds taken."""
    loops = {name: _loops_for(run, slice_seconds) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(run(loops[name]) / loops[name])
    return {name: Sample(tuple(values)) for name, values in times.items()}


def ratio(samples: Mapping[str, Sample], slow: str, fast: str) -> float:
    """Median over the rounds of time(slow) / time(fast): both times of a quotient come from the same round."""
    return statistics.median(a / b for a, b in zip(samples[slow].seconds, samples[fast].seconds, strict=True))


def _time(call: Callable[[], object], synchronize: Callable[[], object], warm_up: bool, loops: int) -> float:
    if warm_up:
        call()
    synchronize()
    start = time.perf_counter()
    for _ in range(loops):
        call()
    synchronize()
    return time.perf_counter() - start


def _loops_for(run: Callable[[int], float], seconds: float) -> int:
    loops = 1
    run(loops)  # warms up
    while (taken := run(loops)) < seconds / 2:
        loops *= 2
    return max(1, round(loops * seconds / taken))

"""What tables 1 to 3 share: the benchmarks' interleaved timer, with the clock as one of the contenders."""

import statistics
from collections.abc import Callable, Mapping

import isrlu_lab._measure as _measure
from isrlu_lab.measure.timer import Sample, measure_loops, ratio

Run = Callable[[int], float]
"""run(loops): the seconds that so many calls took."""

CLOCK = "clock"
ROUNDS = {False: 25, True: 101}
"""Rounds of a measurement: quick, full."""
RESTLESS = 0.1
"""A spread above which a measurement carries a warning."""


def measure(contenders: Mapping[str, Run], *, full: bool) -> dict[str, Sample]:
    """Seconds per call of each contender, in turns; under `CLOCK`, seconds per cycle in the same rounds."""
    return measure_loops({CLOCK: _cycles, **contenders}, rounds=ROUNDS[full])


def _cycles(loops: int) -> float:
    """Seconds of so many cycles. The best of three readings: an interruption can only make the clock look slow."""
    return loops / max(_measure.clock() for _ in range(3))


def cycles(samples: Mapping[str, Sample], name: str, elements: int) -> float:
    """Cycles per element: each round's time over the cycle time that was measured in that round."""
    return ratio(samples, name, CLOCK) / elements


def clock_ghz(samples: Mapping[str, Sample]) -> float:
    """The clock in the rounds of this measurement."""
    return round(1e-9 / samples[CLOCK].median, 3)


def remarks(*measured: Mapping[str, Sample]) -> list[str]:
    """A note for the report where the machine was not quiet enough for its numbers to be worth much."""
    worst = max(sample.spread for samples in measured for sample in samples.values())
    if worst < RESTLESS:
        return []
    return [
        f"Other work ran on this machine during the measurement: times spread by up to {worst:.0%} (half the "
        "interquartile range). Take these numbers with care, or repeat them on a quiet machine with `--again`."
    ]


def ratio_spread(samples: Mapping[str, Sample], slow: str, fast: str) -> float:
    """Half the interquartile range, relative to the median, of the rounds' time(slow) / time(fast)."""
    quotients = [a / b for a, b in zip(samples[slow].seconds, samples[fast].seconds, strict=True)]
    low, middle, high = statistics.quantiles(quotients, n=4)
    return (high - low) / 2 / middle

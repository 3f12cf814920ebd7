"""CPU cycles of a contender: the clock is timed as one of the interleaved contenders, round by round.

The one way to cycles, for `isrlu bench kernels` and for tables 1 to 3.
"""

import statistics
from collections.abc import Callable, Mapping

import isrlu_lab._measure as _measure
from isrlu_lab.measure.timer import Sample, measure_loops, ratio

Run = Callable[[int], float]
"""run(loops): the seconds that so many calls took."""

CLOCK = "clock"
ROUNDS = {False: 25, True: 101}
"""Rounds of an experiment: quick, full."""
NOISY_SPREAD = 0.1
"""A spread, relative to the median, from which a measurement carries a warning."""
UNRELIABLE_SPREAD = 0.5
"""A spread from which a shipped measurement decides about a claim, not this one."""


def measure(contenders: Mapping[str, Run], *, rounds: int) -> dict[str, Sample]:
    """Seconds per call of each contender, interleaved; under `CLOCK`, seconds per cycle in the same rounds.

    Without `CLOCK` where the clock of this CPU cannot be measured.
    """
    clock = {CLOCK: _time_cycles} if _measure.clock() else {}
    return measure_loops({**clock, **contenders}, rounds=rounds)


def _time_cycles(loops: int) -> float:
    """Seconds that `loops` cycles take. Best of three readings: an interruption can only make the clock look slow."""
    return loops / max(_measure.clock() for _ in range(3))


def cycles(samples: Mapping[str, Sample], name: str, elements: int) -> float:
    """Cycles per element: the median over the rounds of time / cycle time. 0 where the clock is not known."""
    return ratio(samples, name, CLOCK) / elements if CLOCK in samples else 0.0


def clock_ghz(samples: Mapping[str, Sample]) -> float:
    """The median clock of this measurement's rounds. 0 where it is not known."""
    return round(1e-9 / samples[CLOCK].median, 3) if CLOCK in samples else 0.0


def largest_spread(*measured: Mapping[str, Sample]) -> float:
    """The largest spread of a contender, relative to its median."""
    return round(max(sample.spread for samples in measured for sample in samples.values()), 3)


def remarks(*measured: Mapping[str, Sample]) -> list[str]:
    """A note for the report if the machine was too noisy for precise times."""
    worst = largest_spread(*measured)
    if worst < NOISY_SPREAD:
        return []
    return [
        f"Other work ran on this machine during the measurement: times spread by up to {worst:.0%} (half the "
        "interquartile range). Take these numbers with care, or repeat them on a quiet machine with `--again`."
    ]


def ratio_spread(samples: Mapping[str, Sample], slow: str, fast: str) -> float:
    """Half the interquartile range, relative to the median, of time(slow) / time(fast) over the rounds."""
    quotients = [a / b for a, b in zip(samples[slow].seconds, samples[fast].seconds, strict=True)]
    low, middle, high = statistics.quantiles(quotients, n=4)
    return (high - low) / 2 / middle

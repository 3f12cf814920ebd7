"""One measured contender: the form in which every bench returns its results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isrlu_lab.measure.timer import Sample, ratio

NS_PER_SECOND = 1e9


@dataclass(frozen=True)
class Measurement:
    """What was measured and what came out. The names in both mappings are the keys of the JSON output.

    labels: what was measured, for example simd, size, direction, contender.
    figures: the results. Usual names:
        seconds     median time of a call, over all rounds; or ns, the median time in nanoseconds per element
        spread      half the interquartile range of the times, relative to the median
        of_RIVAL    time relative to that rival, median over the rounds: below 1, the contender is faster
        speedup     the rival's time relative to the contender's: above 1, the contender is faster
        cycles      CPU cycles per element, where the clock was measured
    """

    labels: Mapping[str, Any]
    figures: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        """A label or figure by name: `measurement.size`, `measurement.seconds`."""
        known = {**self.__dict__.get("labels", {}), **self.__dict__.get("figures", {})}
        if name not in known:
            raise AttributeError(f"a measurement without {name!r}: it has {', '.join(known)}")
        return known[name]

    def to_dict(self) -> dict[str, Any]:
        """Labels, then figures, as one flat mapping: a row of the JSON output."""
        return {**self.labels, **self.figures}


def seconds_figures(
    samples: Mapping[str, Sample],
    name: str,
    *,
    calls: int = 1,
    relative_to: Mapping[str, str] | None = None,
    speedup_over: str | None = None,
) -> dict[str, float]:
    """Figures of one contender, in seconds.

    calls: divides the time, where one timed call does several units of work.
    relative_to: figure name -> rival, for example {"of_relu": "relu"}.
    speedup_over: the rival of the figure "speedup".
    """
    sample = samples[name]
    figures = {"seconds": sample.median / calls, "spread": sample.spread}
    figures |= {figure: ratio(samples, name, rival) for figure, rival in (relative_to or {}).items()}
    if speedup_over:
        figures["speedup"] = ratio(samples, speedup_over, name)
    return figures


def ns_figures(samples: Mapping[str, Sample], name: str, *, elements: int, **rivals: Any) -> dict[str, float]:
    """The same in nanoseconds per element, under the name "ns"."""
    figures = seconds_figures(samples, name, calls=elements, **rivals)
    return {"ns": figures.pop("seconds") * NS_PER_SECOND, **figures}

"""Results of one experiment from two sources: shipped with the package, and measured here. Which of them decides.

A claim's verdict is that of the stronger evidence. A verdict (holds, does not) is stronger than undecided, and that is
stronger than not run. Of two training results, the one with more seeds is stronger, then the full preset. Of two
measurements, the one of this machine is stronger, unless other work disturbed it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from isrlu_lab.experiments.experiment import Claim, Experiment, Verdict
from isrlu_lab.experiments.result_store import Record
from isrlu_lab.measure.cycle_timer import UNRELIABLE_SPREAD

Source = Literal["shipped", "here"]
_RANK = {"not run": 0, "undecided": 1, "does not": 2, "holds": 2}


@dataclass(frozen=True)
class Evidence:
    """A stored result and its source."""

    source: Source
    record: Record
    figures: dict[str, str]
    """Name of the figure -> data URI of its file."""

    @property
    def seeds(self) -> int:
        return len(self.record.environment.get("seeds", []))

    @property
    def summary(self) -> str:
        """What the result was made with: "5 seeds, full preset, AMD EPYC, 2026-11-16"."""
        environment = self.record.environment
        seeds = [f"{self.seeds} seed{'s' if self.seeds > 1 else ''}"] if "runs" in environment else []
        return ", ".join([*seeds, f"{self.record.preset} preset", environment["cpu"], environment["date"][:10]])

    def strength(self, trains: bool) -> tuple[int, ...]:
        here = self.source == "here"
        if trains:
            return (self.seeds, self.record.preset == "full", here)
        reliable = self.record.environment.get("largest_spread", 0.0) < UNRELIABLE_SPREAD
        return (reliable, here)


@dataclass(frozen=True)
class Judged:
    """A claim of the paper with the verdict of the stronger evidence, and what each source found."""

    text: str
    where: str
    verdict: Verdict
    source: Source | None
    """Whose verdict it is; None if nothing has been run."""
    reason: str
    findings: list[tuple[list[Source], Claim]]
    """What was found, with its sources: both of them if they found the same."""


def strongest(entry: Experiment, found: Sequence[Evidence]) -> Evidence | None:
    """The evidence whose figures and notes are shown first."""
    return max(found, key=lambda each: each.strength(entry.trains), default=None)


def judge(entry: Experiment, found: Sequence[Evidence]) -> list[Judged]:
    """Every claim that a source has judged, in the order of the sources."""
    texts = dict.fromkeys(claim.text for each in found for claim in each.record.result.claims)
    return [_judge(entry, found, text) for text in texts]


def _judge(entry: Experiment, found: Sequence[Evidence], text: str) -> Judged:
    claims = [(each, claim) for each in found for claim in each.record.result.claims if claim.text == text]
    best, claim = max(claims, key=lambda pair: (_RANK[pair[1].verdict], *pair[0].strength(entry.trains)))
    source = None if claim.verdict == "not run" else best.source
    findings = {other.here: other for _, other in claims if other.here}
    sources = {here: [each.source for each, other in claims if other.here == here] for here in findings}
    pairs = [(sources[here], finding) for here, finding in findings.items()]
    return Judged(text, claim.where, claim.verdict, source, claim.reason, pairs)

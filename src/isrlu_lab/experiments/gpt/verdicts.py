"""The claims of `normfree` and their verdicts. Losses are in nats per character; margins are fixed before the runs."""

from isrlu_lab.experiments import stats, study
from isrlu_lab.experiments.experiment import Claim, claim
from isrlu_lab.experiments.gpt import norm_tables
from isrlu_lab.experiments.study import Study
from isrlu_lab.training.gpt.gpt_spec import NORMS

MARGIN = 0.02  # nats per character by which a loss may be higher and still count as equal


def learning(found: Study) -> list[Claim]:
    """DyISRU against LayerNorm, and against DyT and Derf."""
    if found.no_verdict:
        return [claim(key, None, reason=found.no_verdict) for key in ("normfree.layernorm", "normfree.rivals")]
    return [
        _no_worse(found, "normfree.layernorm", ("layernorm",)),
        _no_worse(found, "normfree.rivals", ("dyt", "derf")),
    ]


def _no_worse(found: Study, key: str, others: tuple[str, ...]) -> Claim:
    values = {row.spec.norm: found.values(row, "final_loss") for row in found.rows}
    gains = {other: stats.paired(values[other], values["dyisru"]) for other in others}  # above 0: DyISRU is better
    verdict = stats.all_of(stats.no_worse(each, MARGIN) for each in gains.values())
    texts = [f"{stats.paired(values['dyisru'], values[other])} against {NORMS[other]}" for other in others]
    return claim(key, verdict, f"Difference of the loss in nats: {', '.join(texts)}.", _reason(verdict))


def swapping(swaps: Study) -> list[Claim]:
    """`fit` against no `fit` at once, and against the network that keeps LayerNorm after the last further step."""
    keys = ("normfree.fit", "normfree.recovers")
    if swaps.no_verdict:
        return [claim(key, None, reason=swaps.no_verdict) for key in keys]
    rows = {row.spec.swap: row for row in swaps.rows}
    first, _, last = norm_tables.after(swaps.rows[0])
    losses = {
        (swap, at): norm_tables.losses_after(swaps, row, at) for swap, row in rows.items() for at in (first, last)
    }
    nearer = stats.paired(losses["plain", first], losses["fit", first])
    behind = stats.paired(losses["fit", last], losses["none", last])
    within = stats.no_worse(stats.paired(losses["none", last], losses["fit", last]), MARGIN)
    here = f"Loss at once without `fit` less the loss with it: {nearer} nats."
    better = stats.better(nearer, MARGIN)
    unsure = study.NEEDS_SEEDS if better is None else "`fit` does not start lower."
    return [
        claim(keys[0], better, here, unsure),
        claim(keys[1], within, f"After {last} steps {behind} nats against LayerNorm kept.", _reason(within)),
    ]


def _reason(verdict: bool | None) -> str:
    unsure = f"Up to {MARGIN} nats behind would do. {study.NEEDS_SEEDS}"
    return unsure if verdict is None else f"It is more than {MARGIN} nats behind."

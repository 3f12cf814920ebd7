"""Beyond the paper: does a transformer learn with DyISRU in place of LayerNorm?

A character-level GPT of nanoGPT's size for a CPU, with LayerNorm, RMSNorm, DyT, Derf and DyISRU on the same seeds.

choice     each norm's learning rate, start of the weights, and alpha at the start, from the same short lists, by short
           runs on a seed that is not counted afterwards
training   the chosen ones over all seeds
swap       DyISRU in place of the norms of the trained LayerNorm networks, with `fit` and without, and further training
speed      a training step and generation, all norms interleaved, one thread

The margins of the claims were written down before the runs.
"""

import dataclasses
from functools import partial
from typing import Any

from isrlu_lab.data import TEXTS
from isrlu_lab.experiments import study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Result, Table, claim
from isrlu_lab.experiments.gpt import norm_tables, speed, verdicts
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.training.gpt.gpt_spec import ELEMENTWISE, NORMS, SWAPS, GptSpec, SwapSpec

SEEDS = {True: 5, False: 1}
CHOICE_SEED = 1000  # not counted
RATES = (1e-3, 2e-3)
STARTS: dict[bool, dict[str, tuple[float, ...]]] = {  # start of the weights -> alphas at the start
    True: {"nanogpt": (0.5, 8.0, 32.0), "unit": (0.5, 1.0)},  # 0.5: the layers' default; 32: about 1 / deviation
    False: {"unit": (1.0,)},
}
LENGTHS: dict[bool, dict[str, Any]] = {
    True: {"steps": 2000, "warmup": 100, "interval": 100},
    False: {"steps": 120, "warmup": 20, "interval": 40},
}
CHOICE_LENGTHS: dict[bool, dict[str, Any]] = {
    True: {"steps": 500, "warmup": 100, "interval": 250},
    False: {"steps": 20, "warmup": 5, "interval": 10},
}
FURTHER = {True: 200, False: 12}  # steps after a swap


def run(context: Context) -> Result:
    """Choose, train, swap and time; returns tables, claims and curves."""
    unsharded = dataclasses.replace(context, options={**context.options, "shard": None})  # every shard needs the choice
    choices = study.run_study(unsharded, candidates(context.full), seeds=[CHOICE_SEED], family=TEXTS)
    chosen = choose(choices)
    found = study.run_study(context, chosen, seeds=SEEDS[context.full], family=TEXTS)
    swaps = _swaps(context, chosen[0].spec)
    timed, timing_claims, timing_notes = speed.stored(context) if context.stored else speed.measured(context)
    made: list[Table] = [
        norm_tables.losses(found),
        *norm_tables.differences(found),
        *([norm_tables.swaps(swaps)] if swaps else []),
        *timed,
        norm_tables.choices(choices, chosen),
    ]
    return Result(
        made,
        [*verdicts.learning(found), *_swap_claims(swaps), *timing_claims],
        [norm_tables.curves(context, found)],
        [*found.notes, *timing_notes],
        seeds=found.seeds,
        environment=_environment(context, choices, found, swaps),
    )


def candidates(full: bool) -> list[Row[GptSpec]]:
    """Each norm with each start, each learning rate and, if it has one, each alpha; short runs."""
    specs = [
        GptSpec(norm=norm, start=start, rate=rate, alpha=alpha, **CHOICE_LENGTHS[full])
        for start, alphas in STARTS[full].items()
        for norm in NORMS
        for alpha in (alphas if norm in ELEMENTWISE else alphas[:1])
        for rate in RATES
    ]
    return [Row(spec) for spec in specs]


def choose(choices: Study) -> list[Row[GptSpec]]:
    """For each norm the candidate with the lowest validation loss, in the length of the counted runs."""
    chosen = []
    for norm in NORMS:
        members = [row for row in choices.rows if row.spec.norm == norm]
        losses = [(loss, n) for n, row in enumerate(members) for loss in choices.values(row, "final_loss").values()]
        best = members[min(losses)[1] if losses else 0].spec
        chosen.append(Row(dataclasses.replace(best, **LENGTHS[choices.full])))
    return chosen


def swap_rows(start: GptSpec, full: bool) -> list[Row[SwapSpec]]:
    """The trained network of `start` with each kind of swap."""
    fields = {each.name: getattr(start, each.name) for each in dataclasses.fields(start)}
    return [Row(SwapSpec(**fields, swap=swap, further=FURTHER[full])) for swap in SWAPS]


is_current = partial(study.is_current, rows=candidates, seeds=SEEDS, family=TEXTS)


def _swaps(context: Context, start: GptSpec) -> Study | None:
    """The study of the swaps; None if they are not stored."""
    try:
        return study.run_study(context, swap_rows(start, context.full), seeds=SEEDS[context.full], family=TEXTS)
    except study.NothingStored:
        return None


def _swap_claims(swaps: Study | None) -> list[Claim]:
    if swaps is None:
        reason = f"The swaps have not been run: {study.TRAIN_THEM}."
        return [claim(key, None, reason=reason) for key in ("normfree.fit", "normfree.recovers")]
    return verdicts.swapping(swaps)


def _environment(context: Context, choices: Study, found: Study, swaps: Study | None) -> dict[str, Any]:
    """As `Study.environment`, over all three stages. The grid is that of the candidates, which `is_current` knows."""
    stages = [each for each in (choices, found, swaps) if each]
    return {
        "runs": {
            **found.environment["runs"],
            "complete": len(stages) == 3 and all(each.complete for each in stages),
            "crashed": sum(len(each.crashed) for each in stages),
            "grid": dataclasses.replace(found, rows=list(candidates(context.full))).digest,
        }
    }

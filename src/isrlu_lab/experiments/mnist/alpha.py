"""Beyond the paper (suggested in section 2): does it help to learn alpha together with the weights?

Architecture 1, pkeep 0.4: one learned alpha per layer, starting at 1 or 3, against a fixed alpha of the same value,
on the same seeds. Table 4 shares the runs with a fixed alpha.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial

from isrlu_lab.experiments import stats, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Result, Table, claim
from isrlu_lab.experiments.mnist import plots, table4, tables
from isrlu_lab.experiments.study import Row, Study


def run(context: Context) -> Result:
    """Train with learned and with fixed alpha and compare them, paired by seed."""
    members = rows(context.full)
    fixed, learned = members[::2], members[1::2]
    found = study.run_study(context, members, seeds=table4.SEEDS[context.full])
    pairs = list(zip(learned, fixed, strict=True))
    made = [
        tables.accuracy(found, "Fixed and learned alpha: architecture 1"),
        tables.epochs_to(found, "architecture 1"),
        *tables.significance(found, pairs, "Learned against fixed alpha"),
        *_ends(found, learned),
    ]
    figures = [
        *plots.learned_alphas(context, found.part(learned), "alphas"),
        *plots.learning_curves(context, found, "curves", "fixed and learned alpha"),
    ]
    claims = [_claim(found, pairs)]
    return Result(made, claims, figures, found.notes, seeds=found.seeds, environment=found.environment)


def rows(full: bool) -> list[Row]:
    """For each alpha the row with fixed alpha, then the row with learned alpha. Quick: alpha 1 only."""
    fixed = [table4.fixed_alpha(full, alpha) for alpha in ((1.0, 3.0) if full else (1.0,))]
    return [Row(dataclasses.replace(spec, learnable=learnable)) for spec in fixed for learnable in (False, True)]


is_current = partial(study.is_current, rows=rows, seeds=table4.SEEDS)


def _ends(found: Study, learned: Sequence[Row]) -> list[Table]:
    """A table of the final alpha of each layer; empty if no run with learned alpha is finished."""
    columns = [
        Column("initial alpha"),
        Column("hidden layer"),
        Column("alpha after training", "here", "{:.2f}"),
        Column("95 % CI", "spread", "± {:.2f}"),
    ]
    cells: list[list[Cell]] = []
    for row in learned:
        ends = [run.result["history"]["alphas"][-1] for run in found.of(row).values()]
        for layer, alphas in enumerate(zip(*ends, strict=True), 1):
            over_seeds = stats.mean(alphas)
            cells.append([f"α = {row.spec.alpha:g}", str(layer), over_seeds.value, over_seeds.half])
    return [Table("Learned alpha, layer by layer" + found.marks, columns, cells)] if cells else []


def _claim(found: Study, pairs: list[tuple[Row, Row]]) -> Claim:
    if found.no_verdict:
        return claim("alpha.learned", None, reason=found.no_verdict)
    differences = tables.compare(found, pairs, "best_accuracy")
    texts = [f"{row.spec.name} {each} points" for (row, _), each in zip(pairs, differences, strict=True)]
    better = stats.all_of(stats.better(each, tables.MARGIN) for each in differences)
    reason = (
        study.NEEDS_SEEDS if better is None else "For at least one initial alpha it is not better than a fixed alpha."
    )
    return claim("alpha.learned", better, f"Against fixed alpha: {', '.join(texts)}.", reason)

"""Beyond the paper (announced in sections 3.1 and 3.2): does a fast approximation learn as well as full precision?

Architecture 1, pkeep 0.4, ISRLU with method approx (the hardware estimate alone) and kinney (the bit trick) against
full, on the same seeds. The runs of method full are table 4's, in the tutorial's width where it has that.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from isrlu.paper.experiment import Claim, Context, Result, claim
from isrlu.paper.mnist import plots, table4, tables
from isrlu.paper.runs import study
from isrlu.paper.runs.study import Row, Study

METHODS = ("full", "approx", "kinney")
MARGIN = 0.1  # points of accuracy: what the confidence interval of a difference must stay within to be called none


def run(context: Context) -> Result:
    """Train the approximations and pair them with full precision by seed."""
    members = rows(context.full)
    found = study.carry_out(context, members, seeds=table4.SEEDS[context.full])
    pairs = [(row, full) for row in members if (full := _exact(row, members)) is not row]
    made = [
        tables.accuracy(found, members, "ISRLU by its inverse square root: architecture 1"),
        tables.epochs_to(found, members),
        *tables.significance(found, pairs, "Approximation against full precision"),
    ]
    figures = plots.learning_curves(context, found, members, "curves", "ISRLU by its inverse square root")
    claims = [_claim(found, pairs)]
    return Result(made, claims, figures, found.notes, seeds=found.seeds, environment=found.environment)


def is_current(environment: Mapping[str, Any], context: Context) -> bool:
    return table4.is_current(environment, context)


def rows(full: bool) -> list[Row]:
    """Each method for alpha 1 and 3 (quick: alpha 1 alone)."""
    alphas = (1.0, 3.0) if full else (1.0,)
    exact = {
        row.spec.alpha: row.spec
        for row in table4.rows(full, table4.WIDTHS[full][-1])
        if row.spec.activation == "isrlu" and row.spec.pkeep == 0.4
    }
    return [Row(dataclasses.replace(exact[alpha], method=method)) for alpha in alphas for method in METHODS]


def _exact(row: Row, members: list[Row]) -> Row:
    wanted = dataclasses.replace(row.spec, method="full")
    return next(each for each in members if each.spec == wanted)


def _claim(found: Study, pairs: list[tuple[Row, Row]]) -> Claim:
    if found.no_verdict:
        return claim("approx.learns", None, reason=found.no_verdict)
    differences = tables.compare(found, pairs, "best_accuracy")
    if any(each.half is None for each in differences):
        return claim("approx.learns", None, reason="One seed can't tell: give --seeds 5.")
    bounds = [abs(each.value) + (each.half or 0.0) for each in differences]
    here = f"95 % confidence intervals of the differences in accuracy reach {max(bounds):.3f} points at most."
    wide = [row.spec.name for (row, _), bound in zip(pairs, bounds, strict=True) if bound > MARGIN]
    reason = f"Not shown to be within {MARGIN} points: {', '.join(wide)}." if wide else ""
    return claim("approx.learns", not wide, here, reason)

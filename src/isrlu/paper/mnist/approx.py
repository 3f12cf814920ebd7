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


def run(context: Context) -> Result:
    """Train the approximations and pair them with full precision by seed."""
    members = rows(context.full)
    found = study.carry_out(context, members, seeds=table4.SEEDS[context.full])
    pairs = [(row, full) for row in members if (full := _exact(row, members)) is not row]
    made = [
        tables.accuracy(found, "ISRLU by its inverse square root: architecture 1"),
        tables.epochs_to(found, "architecture 1"),
        *tables.significance(found, pairs, "Approximation against full precision"),
    ]
    figures = plots.learning_curves(context, found, "curves", "ISRLU by its inverse square root")
    claims = [_claim(found, pairs)]
    return Result(made, claims, figures, found.notes, seeds=found.seeds, environment=found.environment)


def is_current(environment: Mapping[str, Any], context: Context) -> bool:
    return study.is_current(environment, context, rows(context.full), seeds=table4.SEEDS[context.full])


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
    return tables.no_difference(found, pairs, "approx.learns")

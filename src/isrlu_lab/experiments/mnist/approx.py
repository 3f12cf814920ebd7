"""Beyond the paper (announced in sections 3.1 and 3.2): does a fast approximation learn as well as full precision?

Architecture 1, pkeep 0.4, ISRLU with alpha 1: methods approx (hardware estimate only) and kinney (bit trick) against
full, on the same seeds. Table 4 shares the runs with method full.
"""

import dataclasses
from functools import partial

from isrlu_lab.experiments import study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Result, claim
from isrlu_lab.experiments.mnist import plots, table4, tables
from isrlu_lab.experiments.study import Row, Study

METHODS = ("full", "approx", "kinney")


def run(context: Context) -> Result:
    """Train with each method and compare the approximations with full precision, paired by seed."""
    members = rows(context.full)
    found = study.run_study(context, members, seeds=table4.SEEDS[context.full])
    exact, *others = members
    pairs = [(row, exact) for row in others]
    made = [
        tables.accuracy(found, "ISRLU by its inverse square root: architecture 1"),
        tables.epochs_to(found, "architecture 1"),
        *tables.significance(found, pairs, "Approximation against full precision"),
    ]
    figures = plots.learning_curves(context, found, "curves", "ISRLU by its inverse square root")
    claims = [_claim(found, pairs)]
    return Result(made, claims, figures, found.notes, seeds=found.seeds, environment=found.environment)


def rows(full: bool) -> list[Row]:
    """One row for each method, with alpha 1."""
    exact = table4.fixed_alpha(full, 1.0)
    return [Row(dataclasses.replace(exact, method=method)) for method in METHODS]


is_current = partial(study.is_current, rows=rows, seeds=table4.SEEDS)


def _claim(found: Study, pairs: list[tuple[Row, Row]]) -> Claim:
    if found.no_verdict:
        return claim("approx.learns", None, reason=found.no_verdict)
    return tables.no_difference(found, pairs, "approx.learns")

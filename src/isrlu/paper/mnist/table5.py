"""Table 5: architecture 2 on MNIST. Full: 20 epochs, 3 seeds. Quick: 200 steps, 1 seed."""

import statistics
from collections.abc import Mapping
from typing import Any

from isrlu.paper import numbers
from isrlu.paper.experiment import Claim, Context, Result, claim
from isrlu.paper.mnist import plots, tables
from isrlu.paper.mnist.spec import Spec
from isrlu.paper.runs import study
from isrlu.paper.runs.study import Row, Study

SEEDS = {True: 3, False: 1}  # full, quick


def run(context: Context) -> Result:
    """Train all rows over all seeds and compare."""
    members = rows(context.full)
    found = study.carry_out(context, members, seeds=SEEDS[context.full])
    made = [
        tables.accuracy(found, members, "Table 5: architecture 2"),
        tables.epochs_to(found, members),
        *tables.significance(found, tables.same_dropout(members), "Differences between activations"),
    ]
    figures = [
        *plots.learning_curves(context, found, members, "curves", "architecture 2"),
        *plots.mean_activations(context, found, members, "activations", "architecture 2"),
    ]
    return Result(made, _claims(found), figures, found.notes, seeds=found.seeds, environment=found.environment)


def is_current(environment: Mapping[str, Any], context: Context) -> bool:
    return study.is_current(environment, context, seeds=SEEDS[context.full])


def rows(full: bool) -> list[Row]:
    """The table's rows, in the paper's order."""
    paper = numbers.table("table5")
    length = {"epochs": paper["epochs"]} if full else {"epochs": 1, "steps": 200}
    return [
        Row(
            Spec(
                architecture=2,
                activation=row["activation"].lower(),
                alpha=row["alpha"],
                pkeep=paper["pkeep_fc"],
                pkeep_conv=paper["pkeep_conv"],
                **length,
            ),
            row["accuracy"],
            row["loss"],
        )
        for row in paper["rows"]
    ]


def _claims(found: Study) -> list[Claim]:
    if found.no_verdict:
        return [claim(f"table5.{key}", None, reason=found.no_verdict) for key in numbers.claims("table5")]
    return [_accuracy(found), _loss(found)]


def _accuracy(found: Study) -> Claim:
    pairs = tables.same_dropout(found.rows)
    differences = tables.compare(found, pairs, "best_accuracy")
    if any(each.p is None for each in differences):
        return claim("table5.accuracy", None, reason="One seed can't tell: give --seeds 3 or more.")
    real = [f"{a.spec.name} and {b.spec.name}" for (a, b), d in zip(pairs, differences, strict=True) if d.significant]
    largest = max(abs(each.value) for each in differences)
    here = f"The largest difference is {largest:.3f} points over {differences[0].count} seeds."
    return claim("table5.accuracy", not real, here, f"Significant: {'; '.join(real)}." if real else "")


def _loss(found: Study) -> Claim:
    means = [statistics.mean(found.values(row, "final_loss").values()) for row in found.rows]
    holds = all(2.0 <= value <= 3.2 for value in means)
    here = f"{min(means):.2f} to {max(means):.2f}."
    return claim("table5.loss", holds, here, "" if holds else "The loss depends on when training stops.")

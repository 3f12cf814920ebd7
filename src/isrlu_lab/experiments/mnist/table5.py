"""Table 5: architecture 2 on MNIST. Full: 20 epochs, 3 seeds. Quick: 200 steps, 1 seed."""

from functools import partial

from isrlu_lab.experiments import numbers, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Result, claim
from isrlu_lab.experiments.mnist import plots, tables
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.training.mnist.mnist_spec import MnistSpec

SEEDS = {True: 3, False: 1}  # full, quick


def run(context: Context) -> Result:
    """Train all rows over all seeds and compare them with the paper."""
    members = rows(context.full)
    found = study.run_study(context, members, seeds=SEEDS[context.full])
    made = [
        tables.accuracy(found, "Table 5: architecture 2"),
        tables.epochs_to(found, "architecture 2"),
        *tables.significance(found, tables.same_dropout(members), "Differences between activations"),
    ]
    figures = [
        *plots.learning_curves(context, found, "curves", "architecture 2"),
        *plots.mean_activations(context, found, "activations", "architecture 2"),
    ]
    return Result(made, _claims(found), figures, found.notes, seeds=found.seeds, environment=found.environment)


def rows(full: bool) -> list[Row]:
    """The rows of table 5 in the paper's order."""
    paper = numbers.table("table5")
    length = {"epochs": paper["epochs"]} if full else {"epochs": 1, "steps": 200}
    return [
        Row(
            MnistSpec(
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


is_current = partial(study.is_current, rows=rows, seeds=SEEDS)


def _claims(found: Study) -> list[Claim]:
    if found.no_verdict:
        return [claim(f"table5.{key}", None, reason=found.no_verdict) for key in numbers.claims("table5")]
    return [
        tables.no_difference(found, tables.same_dropout(found.rows), "table5.accuracy"),
        tables.loss_in_range(found, "table5.loss"),
    ]

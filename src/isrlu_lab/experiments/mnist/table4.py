"""Table 4: architecture 1 on MNIST, eight rows of activation and dropout, with two possible widths of the dense layer.

Full: 17 epochs, 5 seeds, an evaluation on the test set every 100 steps as in the tutorial (the highest accuracy
depends on this interval). Quick: 1 epoch, 1 seed, only the tutorial's width, which agrees with the paper's numbers. The
claims are judged with the width whose accuracies are closer to the paper's.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from isrlu_lab.experiments import numbers, stats, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Result, claim
from isrlu_lab.experiments.mnist import plots, tables
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.training.mnist.mnist_spec import MnistSpec

WIDTHS = {True: (1176, 200), False: (200,)}  # full, quick. 1176: stated in the paper; 200: from the tutorial
SEEDS = {True: 5, False: 1}  # full, quick
QUICK_WIDTH = (
    "The quick preset trains with a dense layer of 200 units. The paper's text says 1176, but its numbers agree with "
    "200. `--full` trains both."
)
MUCH = 0.9  # "much more rapidly": the training loss is at most 0.9 times the other one


def run(context: Context) -> Result:
    """Train all rows over all seeds and compare them with the paper."""
    by_width = _by_width(context.full)
    found = study.run_study(context, _all(by_width), seeds=SEEDS[context.full])
    nearest, notes = _reading(found, by_width)
    made, figures = [], []
    for width in sorted(by_width, key=lambda width: width != nearest):  # the reading that decides comes first
        members = by_width[width]
        part, what = found.part(members), f"dense layer of {width}"
        made.append(tables.accuracy(part, f"Table 4: architecture 1, {what}"))
        made.append(tables.epochs_to(part, what))
        made += tables.significance(part, tables.same_dropout(members), f"Differences between activations, {what}")
        figures += plots.learning_curves(context, part, f"curves-{width}", what)
        figures += plots.mean_activations(context, part, f"activations-{width}", what)
    claims = _claims(found.part(by_width[nearest]))
    return Result(made, claims, figures, [*found.notes, *notes], seeds=found.seeds, environment=found.environment)


def rows(full: bool, width: int) -> list[Row]:
    """The rows of table 4 in the paper's order, with one width of the dense layer."""
    paper = numbers.table("table4")
    length = {"epochs": paper["epochs"], "evaluations": 6} if full else {"epochs": 1, "evaluations": 3}
    return [
        Row(
            MnistSpec(
                architecture=1,
                activation=row["activation"].lower(),
                alpha=row.get("alpha", 1.0),
                pkeep=row["pkeep"],
                width=width,
                **length,
            ),
            row["accuracy"],
            row["loss"],
        )
        for row in paper["rows"]
    ]


def fixed_alpha(full: bool, alpha: float) -> MnistSpec:
    """ISRLU at pkeep 0.4 with the tutorial's width, the baseline of other experiments."""
    specs = (row.spec for row in rows(full, WIDTHS[full][-1]))
    return next(each for each in specs if (each.activation, each.alpha, each.pkeep) == ("isrlu", alpha, 0.4))


def _by_width(full: bool) -> dict[int, list[Row]]:
    return {width: rows(full, width) for width in WIDTHS[full]}


def _all(by_width: Mapping[int, Sequence[Row]]) -> list[Row]:
    return [row for members in by_width.values() for row in members]


is_current = partial(study.is_current, rows=lambda full: _all(_by_width(full)), seeds=SEEDS)


def _reading(found: Study, by_width: Mapping[int, Sequence[Row]]) -> tuple[int, list[str]]:
    """The width whose accuracies are closest to the paper's, and a note with the distances."""
    if not found.full:
        return next(iter(by_width)), [QUICK_WIDTH]
    if found.identity != "mnist" or not all(found.of(row) for row in found.rows):
        return next(iter(by_width)), []
    accuracy = {width: _distance(found, members, "best_accuracy") for width, members in by_width.items()}
    loss = {width: _distance(found, members, "final_loss") for width, members in by_width.items()}
    nearest = min(accuracy, key=accuracy.__getitem__)
    text = "; ".join(
        f"{w} units: {accuracy[w]:.3f} points of accuracy and {loss[w]:.2f} of loss x 100" for w in by_width
    )
    note = f"Mean distance of a row from the paper's, by width of the dense layer: {text}."
    return nearest, [f"{note} The claims are judged with {nearest} units."]


def _distance(found: Study, members: Sequence[Row], key: str) -> float:
    """Mean absolute difference over the rows between the mean over seeds and the paper's number."""
    paper = {row: row.accuracy if key == "best_accuracy" else row.loss for row in members}
    return statistics.mean(abs(_average(found.values(row, key)) - (paper[row] or 0.0)) for row in members)


def _claims(found: Study) -> list[Claim]:
    if found.no_verdict:
        return [claim(f"table4.{key}", None, reason=found.no_verdict) for key in numbers.claims("table4")]
    return [
        _learning(found),
        _best(found),
        _relu(found),
        tables.loss_in_range(found, "table4.loss"),
        _activation(found),
    ]


def _learning(found: Study) -> Claim:
    early = {row: {seed: tables.early_loss(run) for seed, run in found.of(row).items()} for row in found.rows}
    pairs = [
        (a, b)
        for a, b in itertools.product(found.rows, repeat=2)
        if a.spec.pkeep == b.spec.pkeep and a.spec.activation == "isrlu" != b.spec.activation
    ]
    differences = stats.corrected([stats.paired(early[a], early[b]) for a, b in pairs])
    lower = sum(each.value < 0 and each.significant for each in differences)
    ratios = [_average(early[a]) / _average(early[b]) for a, b in pairs]
    here = (
        f"ISRLU's training loss over the first epoch is {min(ratios):.2f} to {max(ratios):.2f} times that of ELU and "
        f"ReLU at the same dropout; significantly lower in {lower} of {len(pairs)} comparisons."
    )
    if any(each.p is None for each in differences):
        return claim("table4.learning", None, here, study.NEEDS_SEEDS)
    if max(ratios) > MUCH:
        return claim(
            "table4.learning", False, here, f"Much more rapidly means at most {MUCH} times in all comparisons."
        )
    return claim("table4.learning", True if lower == len(pairs) else None, here, study.NEEDS_SEEDS)


def _best(found: Study) -> Claim:
    means = {row: _average(found.values(row, "best_accuracy")) for row in found.rows}
    named = found.rows[0]
    others = [row for row in found.rows if row is not named]
    other = max(others, key=means.__getitem__)
    differences = tables.compare(found, [(named, row) for row in others], "best_accuracy")
    difference = differences[others.index(other)]  # p is corrected: it is the best of seven rows
    here = f"Its mean is {means[named]:.3f} %; the best of the others, {other.spec.label}, has {means[other]:.3f} %."
    if not difference.significant:
        return claim("table4.best", None, here, "The difference is not significant.")
    return claim("table4.best", difference.value > 0, here, f"{other.spec.label} is significantly better.")


def _relu(found: Study) -> Claim:
    def by_seed(name: str) -> dict[int, float]:
        """seed -> mean accuracy over alpha and dropout, for the seeds that have all these runs."""
        each = [found.values(row, "best_accuracy") for row in found.rows if row.spec.activation == name]
        return {seed: statistics.mean(values[seed] for values in each) for seed in set.intersection(*map(set, each))}

    difference = stats.paired(by_seed("isrlu"), by_seed("relu"))
    here = f"ISRLU's accuracy is {difference} points relative to ReLU's, mean over alpha and dropout, paired by seed."
    better = stats.better(difference, tables.MARGIN)
    return claim("table4.relu", better, here, study.NEEDS_SEEDS if better is None else "It is not better.")


def _activation(found: Study) -> Claim:
    """Compares |mean activation| of the hidden layers after training, mean over layers and runs."""
    distance = {
        name: statistics.mean(
            statistics.mean(map(abs, run.result["history"]["unit_mean"][-1]))
            for row in found.rows
            if row.spec.activation == name
            for run in found.of(row).values()
        )
        for name in ("isrlu", "elu", "relu")
    }
    holds = max(distance["isrlu"], distance["elu"]) < distance["relu"]
    texts = (f"{name} {distance[name.lower()]:.3f}" for name in ("ISRLU", "ELU", "ReLU"))
    here = f"Distance from zero after training, mean over layers: {', '.join(texts)}."
    return claim("table4.activation", holds, here, "ReLU's units are not further from zero.")


def _average(values: Mapping[Any, float]) -> float:
    return statistics.mean(values.values())

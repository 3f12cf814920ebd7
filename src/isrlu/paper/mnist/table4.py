"""Table 4: architecture 1 on MNIST, eight rows of activation and dropout, in both readings of the dense layer's width.

Full: 17 epochs, 5 seeds, the test set looked at every 100 steps (the highest accuracy depends on how often one looks;
that is the tutorial's interval). Quick: 1 epoch, 1 seed, the paper's width alone. The paper's claims are judged in the
reading whose accuracies are nearer to the paper's.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from isrlu.paper import numbers, stats
from isrlu.paper.experiment import Claim, Context, Result, claim
from isrlu.paper.mnist import plots, tables
from isrlu.paper.mnist.spec import Spec
from isrlu.paper.runs import study
from isrlu.paper.runs.study import Row, Study

WIDTHS = {True: (1176, 200), False: (1176,)}  # the paper's word; the tutorial's, which the rest of the protocol is
SEEDS = {True: 5, False: 1}  # full, quick


def run(context: Context) -> Result:
    """Train all rows over all seeds and compare."""
    by_width = {width: rows(context.full, width) for width in WIDTHS[context.full]}
    found = study.carry_out(context, [row for each in by_width.values() for row in each], seeds=SEEDS[context.full])
    made, figures = [], []
    for width, members in by_width.items():
        what = f"dense layer of {width}"
        made.append(tables.accuracy(found, members, f"Table 4: architecture 1, {what}"))
        made.append(tables.epochs_to(found, members))
        made += tables.significance(found, tables.same_dropout(members), f"Differences between activations, {what}")
        figures += plots.learning_curves(context, found, members, f"curves-{width}", what)
        figures += plots.mean_activations(context, found, members, f"activations-{width}", what)
    nearest, notes = _reading(found, by_width)
    claims = _claims(found, by_width[nearest])
    return Result(made, claims, figures, [*found.notes, *notes], seeds=found.seeds, environment=found.environment)


def is_current(environment: Mapping[str, Any], context: Context) -> bool:
    return study.is_current(environment, context, seeds=SEEDS[context.full])


def rows(full: bool, width: int) -> list[Row]:
    """The table's rows, in the paper's order."""
    paper = numbers.table("table4")
    length = {"epochs": paper["epochs"], "evaluations": 6} if full else {"epochs": 1, "evaluations": 3}
    return [
        Row(
            Spec(
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


def _reading(found: Study, by_width: Mapping[int, Sequence[Row]]) -> tuple[int, list[str]]:
    """The width that the authors are likely to have used, and a note that says why."""
    if found.no_verdict:
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
    """Of the rows' means over seeds from the paper's numbers, mean over the rows."""
    paper = {row: row.accuracy if key == "best_accuracy" else row.loss for row in members}
    return statistics.mean(abs(_average(found.values(row, key)) - (paper[row] or 0.0)) for row in members)


def _claims(found: Study, members: Sequence[Row]) -> list[Claim]:
    if found.no_verdict:
        return [claim(f"table4.{key}", None, reason=found.no_verdict) for key in numbers.claims("table4")]
    return [judge(found, members) for judge in (_learning, _best, _relu, _loss, _activation)]


def _learning(found: Study, members: Sequence[Row]) -> Claim:
    early = {row: {seed: tables.early_loss(run) for seed, run in found.of(row).items()} for row in members}
    pairs = [
        (a, b)
        for a, b in itertools.product(members, repeat=2)
        if a.spec.pkeep == b.spec.pkeep and a.spec.activation == "isrlu" != b.spec.activation
    ]
    faster = [each.value < 0 and each.significant for each in _compared(early, pairs)]
    ratios = [_average(early[a]) / _average(early[b]) for a, b in pairs]
    here = (
        f"ISRLU's training loss over the first epoch is {min(ratios):.2f} to {max(ratios):.2f} times that of ELU and "
        f"ReLU at the same dropout; significantly lower in {sum(faster)} of {len(pairs)} comparisons."
    )
    reason = "" if all(faster) else "An advantage that every seed's noise can hide is not much more rapid."
    return claim("table4.learning", all(faster), here, reason)


def _best(found: Study, members: Sequence[Row]) -> Claim:
    means = {row: _average(found.values(row, "best_accuracy")) for row in members}
    named, top = members[0], max(members, key=means.__getitem__)
    second = max((row for row in members if row is not named), key=means.__getitem__)
    difference = stats.paired(found.values(named, "best_accuracy"), found.values(second, "best_accuracy"))
    here = (
        f"Its mean is {means[named]:.3f} %; the best of the others, {second.spec.label}, has {means[second]:.3f} % "
        f"({'a' if difference.significant else 'no'} significant difference)."
    )
    return claim("table4.best", top is named, here, "" if top is named else f"{top.spec.label} has the highest mean.")


def _relu(found: Study, members: Sequence[Row]) -> Claim:
    def over_dropouts(name: str) -> dict[Any, float]:
        matching = [row for row in members if row.spec.activation == name]
        keys = {(row.spec.pkeep, seed) for row in matching for seed in found.of(row)}
        return {
            (pkeep, seed): statistics.mean(
                found.values(row, "best_accuracy")[seed]
                for row in matching
                if row.spec.pkeep == pkeep and seed in found.of(row)
            )
            for pkeep, seed in keys
        }

    difference = stats.paired(over_dropouts("isrlu"), over_dropouts("relu"))
    p = "" if difference.p is None else f", p = {difference.p:.3f}"
    here = f"ISRLU's accuracy is {difference.value:+.3f} points from ReLU's, mean over alpha, dropout and seeds{p}."
    holds = difference.significant and difference.value > 0
    return claim("table4.relu", holds, here, "" if holds else "Not significantly better here (paired by seed).")


def _loss(found: Study, members: Sequence[Row]) -> Claim:
    means = [_average(found.values(row, "final_loss")) for row in members]
    outside = [row.spec.label for row, value in zip(members, means, strict=True) if not 2.0 <= value <= 3.2]
    here = f"{min(means):.2f} to {max(means):.2f}."
    return claim("table4.loss", not outside, here, f"Outside: {'; '.join(outside)}." if outside else "")


def _activation(found: Study, members: Sequence[Row]) -> Claim:
    """Distance from zero of the units' mean activation after training, mean over layers."""
    distance = {
        name: statistics.mean(
            statistics.mean(map(abs, run.result["history"]["unit_mean"][-1]))
            for row in members
            if row.spec.activation == name
            for run in found.of(row).values()
        )
        for name in ("isrlu", "elu", "relu")
    }
    holds = max(distance["isrlu"], distance["elu"]) < distance["relu"]
    texts = (f"{name} {distance[name.lower()]:.3f}" for name in ("ISRLU", "ELU", "ReLU"))
    here = f"Distance from zero after training, mean over layers: {', '.join(texts)}."
    return claim("table4.activation", holds, here, "" if holds else "ReLU's units are no further from zero here.")


def _average(values: Mapping[Any, float]) -> float:
    return statistics.mean(values.values())


def _compared(values: Mapping[Row, Mapping[Any, float]], pairs: Sequence[tuple[Row, Row]]) -> list[stats.Difference]:
    return stats.corrected([stats.paired(values[a], values[b]) for a, b in pairs])

"""The tables of every MNIST experiment: accuracy and loss, epochs to 99 %, and significance of the differences."""

import itertools
import statistics
from collections.abc import Sequence

from isrlu_lab.experiments import difference_table, numbers, stats
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Table, claim
from isrlu_lab.experiments.study import NEEDS_SEEDS, Row, Study
from isrlu_lab.training.mnist.mnist_spec import MnistSpec
from isrlu_lab.training.run_store import Run

NEAR = 0.25  # percentage points of accuracy between the mean and the paper's number that still count as equal
MARGIN = 0.1  # percentage points of accuracy: smaller differences are negligible


def accuracy(study: Study, caption: str) -> Table:
    """The paper's accuracy and loss next to the measured mean, 95 % confidence interval and best seed."""
    with_paper = any(row.accuracy is not None for row in study.rows)
    columns = [
        Column("activation"),
        Column("pkeep"),
        *([Column("max. accuracy, %", "paper", "{:.2f}")] if with_paper else []),
        Column("max. accuracy, %", "here", "{:.3f}"),
        Column("95 % CI", "spread", "± {:.3f}"),
        Column("best seed", "here", "{:.2f}"),
        *([Column("loss x 100", "paper", "{:.3f}")] if with_paper else []),
        Column("loss x 100", "here", "{:.3f}"),
        Column("95 % CI", "spread", "± {:.3f}"),
        Column("seeds"),
        *([Column(f"within {NEAR}", "verdict")] if with_paper else []),
    ]
    return Table(caption + study.marks, columns, [_accuracy_row(study, row, with_paper) for row in study.rows])


def _accuracy_row(study: Study, row: Row, with_paper: bool) -> list[Cell]:
    found, losses = list(study.values(row, "best_accuracy").values()), list(study.values(row, "final_loss").values())
    best, half = stats.mean_or_none(found)
    loss, loss_half = stats.mean_or_none(losses)
    near = "not run"
    if best is not None and row.accuracy is not None and study.full and study.identity == "mnist":
        near = "holds" if round(abs(best - row.accuracy), 6) <= NEAR else "does not"  # 99.55 - 99.3 counts as 0.25
        near = near if len(found) >= max(2, len(study.seeds)) else "undecided"
    return [
        row.spec.name,
        _pkeep(row),
        *([row.accuracy] if with_paper else []),
        best,
        half,
        max(found, default=None),
        *([row.loss] if with_paper else []),
        loss,
        loss_half,
        len(found),
        *([near] if with_paper else []),
    ]


def same_dropout(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Every pair of rows that differ only in the activation."""
    kept = [(row.spec.pkeep, row.spec.width) for row in rows]
    return [(a, b) for (a, x), (b, y) in itertools.combinations(zip(rows, kept, strict=True), 2) if x == y]


def compare(study: Study, pairs: Sequence[tuple[Row, Row]], key: str) -> list[stats.Difference]:
    """first - second for each pair of rows, paired by seed, with p values corrected for the number of pairs."""
    return stats.corrected([stats.paired(study.values(a, key), study.values(b, key)) for a, b in pairs])


def significance(study: Study, pairs: Sequence[tuple[Row, Row]], caption: str) -> list[Table]:
    """The table of differences in accuracy and their significance; empty with fewer than two seeds."""
    names = [(f"{a.spec.name} − {b.spec.name}", _pkeep(a)) for a, b in pairs]
    found = [(*name, each) for name, each in zip(names, compare(study, pairs, "best_accuracy"), strict=True)]
    return difference_table.table(caption + study.marks, ("pair", "pkeep"), "difference in accuracy, points", found)


def epochs_to(study: Study, what: str, percent: float = 99.0) -> Table:
    """Epochs until the test accuracy first reaches `percent`, and the training loss of the first and last epoch."""
    columns = [
        Column("activation"),
        Column("pkeep"),
        Column(f"seeds that reach {percent:g} %", "here"),
        Column(f"epochs to {percent:g} % (median of these)", "here", "{:.1f}"),
        Column("training loss, mean of epoch 1", "here", "{:.4f}"),
        Column("training loss, mean of last epoch", "here", "{:.4f}"),
    ]
    out: list[list[Cell]] = []
    for row in study.rows:
        runs = list(study.of(row).values())
        reached = [epochs for run in runs if (epochs := first_epoch(run, percent)) is not None]
        losses = [(early_loss(run), late_loss(run)) for run in runs]
        early, late = (statistics.mean(each) for each in zip(*losses, strict=True)) if losses else (None, None)
        median = statistics.median(reached) if reached else None
        out.append([row.spec.name, _pkeep(row), f"{len(reached)} of {len(runs)}", median, early, late])
    caption = f"Speed of learning, {what}: epochs to {percent:g} % and training loss"
    return Table(caption + study.marks, columns, out)


def no_difference(study: Study, pairs: Sequence[tuple[Row, Row]], key: str) -> Claim:
    """The verdict on the claim `key`: no pair differs in accuracy."""
    found = compare(study, pairs, "best_accuracy")
    texts = [f"{a.spec.name} − {b.spec.name} {each}" for (a, b), each in zip(pairs, found, strict=True)]
    here = f"Differences in accuracy, points: {'; '.join(texts)}."
    alike = stats.alike(found, MARGIN)
    return claim(key, alike, here, NEEDS_SEEDS if alike is None else "A difference is significant.")


def loss_in_range(study: Study, key: str) -> Claim:
    """The verdict on the claim `key`: the final loss of every row lies in the paper's range."""
    low, high = numbers.table("loss")["range"]
    means = {row.spec.label: statistics.mean(study.values(row, "final_loss").values()) for row in study.rows}
    outside = [f"{label} {value:.2f}" for label, value in means.items() if not low <= value <= high]
    here = f"{min(means.values()):.2f} to {max(means.values()):.2f}."
    if len(study.seeds) < 2:
        return claim(key, None, here, f"{NEEDS_SEEDS} Outside with this one: {'; '.join(outside) or 'none'}.")
    return claim(key, not outside, here, f"Outside: {'; '.join(outside)}.")


def first_epoch(run: Run, percent: float) -> float | None:
    """Epochs until an evaluation first reached `percent` test accuracy, as a fraction; None if none did."""
    history = run.result["history"]
    steps = (
        step for step, value in zip(history["test_steps"], history["test_accuracy"], strict=True) if value >= percent
    )
    first = next(steps, None)
    return None if first is None else first / history["steps_per_epoch"]


def early_loss(run: Run) -> float:
    """Mean training loss over the first epoch."""
    return _loss_between(run, 0, 1)


def late_loss(run: Run) -> float:
    """Mean training loss over the last epoch."""
    assert isinstance(run.spec, MnistSpec)
    return _loss_between(run, run.spec.epochs - 1, run.spec.epochs)


def _loss_between(run: Run, start: int, end: int) -> float:
    history = run.result["history"]
    per = history["steps_per_epoch"]
    points = zip(history["train_steps"], history["train_loss"], strict=True)
    return statistics.mean(loss for step, loss in points if start * per < step <= end * per)


def _pkeep(row: Row) -> str:
    conv = f"{row.spec.pkeep_conv} conv, " if row.spec.architecture == 2 else ""
    return f"{conv}{row.spec.pkeep}"

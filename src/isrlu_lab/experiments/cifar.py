"""The paper's future work: a deeper convolutional network. Clevert's 11 layers at a quarter of their width, CIFAR-10.

No batch normalisation, except for one rival: ReLU with it, which ELU was made to beat. All rows have the same
optimiser, rate, batches and dropout; the initial weights follow each activation's own theory. The time of a step is
measured after the runs, all activations interleaved: other work on the machine disturbs the runs' own times.
Full: 10 epochs, 3 seeds. Quick: 60 steps, 1 seed, three rows.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from isrlu_lab.data import CIFAR, NoSource
from isrlu_lab.environment import cpu_name
from isrlu_lab.experiments import difference_table, figure_style, numbers, stats, study
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Claim, Column, Figure, Result, Table, claim
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.training.cifar.cifar_spec import ACTIVATIONS, CifarSpec

SEEDS = {True: 3, False: 1}  # full, quick
QUICK = ("relu", "elu", "isrlu")
ROUNDS = {True: 41, False: 21}  # of the measured steps
SPEED = "Speed of a training step"  # how the caption of their table begins
OWN_TIMES = "times: the runs' own, which other work may have disturbed"
MARGIN = 1.0  # percentage points of accuracy: smaller differences are negligible
COMPARED = (
    ("isrlu", "elu"),
    ("isrlu3", "elu"),
    ("isrlu", "relu"),
    ("elu", "relu"),
    ("isrlu", "relu-bn"),
    ("elu", "relu-bn"),
    ("learned", "isrlu"),
    ("sisrlu", "isrlu"),
)
_BLUE, _INK = figure_style.LINES["blue"], figure_style.LINES["ink"]
LINES: dict[str, dict[str, Any]] = {
    "relu": _INK,
    "relu-bn": {**_INK, "linestyle": ":"},
    "elu": figure_style.LINES["green"],
    "isrlu": _BLUE,
    "isrlu3": {**_BLUE, "linestyle": ":"},
    "learned": figure_style.LINES["purple"],
    "sisrlu": figure_style.LINES["vermillion"],
}


def run(context: Context) -> Result:
    """Train all rows over all seeds and compare the activations, per epoch and per second."""
    try:
        found = study.run_study(context, rows(context.full), seeds=SEEDS[context.full], family=CIFAR)
    except NoSource as error:
        context.folder.warn(f"cifar: {error}")
        unknown = [claim(f"cifar.{key}", None, reason="CIFAR-10 is not here.") for key in numbers.claims("cifar")]
        return Result([_measured_speed(context)], unknown, notes=[str(error)])
    speed = _stored_speed(context) if context.stored else _measured_speed(context)
    steps = {str(row[0]): float(row[1] or 0) for row in speed.rows} if speed else None
    return Result(
        [_accuracy_table(found, steps), *_differences_table(found), *([speed] if speed else [])],
        _claims(found),
        [*_curves(context, found, "epoch"), *_curves(context, found, "second", steps)],
        found.notes,
        seeds=found.seeds,
        environment=found.environment,
    )


def rows(full: bool) -> list[Row[CifarSpec]]:
    """Every activation. Quick: three of them, for 60 steps."""
    length: dict[str, Any] = {} if full else {"epochs": 1, "steps": 60}
    return [Row(CifarSpec(activation=each, **length)) for each in (ACTIVATIONS if full else QUICK)]


is_current = partial(study.is_current, rows=rows, seeds=SEEDS, family=CIFAR)


def _measured_speed(context: Context) -> Table:
    """Time a training step of every row, interleaved, on one thread and random images."""
    from isrlu_lab.measure import cifar_bench

    rounds, specs = ROUNDS[context.full], [row.spec for row in rows(context.full)]
    context.progress("speed of a training step")
    timed = context.remember("speed", lambda: cifar_bench.run(specs, rounds=rounds))
    columns = [
        Column("activation"),
        Column("ms per step", "here", "{:.1f}"),
        Column("ms per step", "spread", "± {:.1%}"),
        Column("of ReLU's", "here", "{:.3f}"),
    ]
    cells: list[list[Cell]] = [
        [ACTIVATIONS[each["activation"]], each["seconds"] * 1e3, each["spread"], each["of_relu"]] for each in timed
    ]
    caption = f"{SPEED}: {specs[0].network}, batches of {specs[0].batch}, one thread, activations interleaved"
    return Table(f"{caption} [{cpu_name()}, {rounds} rounds]", columns, cells)


def _stored_speed(context: Context) -> Table | None:
    """The table of an earlier result; None if it has none, or not all rows."""
    earlier = context.previous or Result()
    tables = [each for each in earlier.tables if each.caption.startswith(SPEED)]
    labels = {row.spec.label for row in rows(context.full)}
    return next((each for each in tables if labels <= {row[0] for row in each.rows}), None)


def _marks(found: Study, *more: str) -> str:
    """The caption's suffix in brackets: the marks of the runs, and more."""
    marks = [each for each in (found.marks.strip(" []"), *more) if each]
    return f" [{'; '.join(marks)}]" if marks else ""


def _accuracy_table(found: Study, steps: Mapping[str, float] | None) -> Table:
    """steps: activation -> measured ms per step; None: the runs' own."""
    columns = [
        Column("activation"),
        Column("test accuracy, %", "here", "{:.2f}", bar=True),
        Column("95 % CI", "spread", "± {:.2f}"),
        Column("training loss of the last epoch", "here", "{:.4f}"),
        Column("ms per step", "here", "{:.1f}"),
        Column("seeds"),
    ]
    cells: list[list[Cell]] = []
    for row in found.rows:
        values = {
            key: list(found.values(row, key).values()) for key in ("final_accuracy", "final_loss", "step_milliseconds")
        }
        accuracy, half = stats.mean_or_none(values["final_accuracy"])
        loss = statistics.mean(values["final_loss"]) if values["final_loss"] else None
        own = statistics.median(values["step_milliseconds"]) if values["step_milliseconds"] else None
        step = steps[row.spec.label] if steps else own
        cells.append([row.spec.label, accuracy, half, loss, step, len(found.of(row))])
    spec = found.rows[0].spec
    caption = f"CIFAR-10, {spec.network}, batches of {spec.batch}, {spec.duration}, one thread a run"
    return Table(caption + _marks(found, "" if steps else OWN_TIMES), columns, cells)


def _differences(found: Study) -> dict[tuple[str, str], stats.Difference]:
    """(first, second) -> difference in accuracy, paired by seed, with corrected p values."""
    values = {row.spec.activation: found.values(row, "final_accuracy") for row in found.rows}
    pairs = [pair for pair in COMPARED if set(pair) <= set(values)]
    return dict(zip(pairs, stats.corrected([stats.paired(values[a], values[b]) for a, b in pairs]), strict=True))


def _differences_table(found: Study) -> list[Table]:
    compared = [(ACTIVATIONS[a], ACTIVATIONS[b], each) for (a, b), each in _differences(found).items()]
    caption, unit = f"Differences, paired by seed{found.marks}", "difference in accuracy, points"
    return difference_table.table(caption, ("activation", "less"), unit, compared, digits=2)


def _curves(context: Context, found: Study, unit: str, steps: Mapping[str, float] | None = None) -> list[Figure]:
    """Training loss and test accuracy over epochs, or over the seconds of training: of `steps`, else the runs' own."""
    figures = []
    marks = _marks(found, OWN_TIMES if unit == "second" and not steps else "")
    for key, what in (("loss", "training loss"), ("accuracy", "test accuracy, %")):
        name, x = what.partition(",")[0], "training time, s" if unit == "second" else unit
        title = f"{name.capitalize()} over {unit}s\n{found.marks.strip()}".strip()
        made, axes = figure_style.panel(title, x, what, height=4.5)
        for row in found.rows:
            histories = [run.result["history"] for run in found.of(row).values()]
            if histories:
                curve = [statistics.mean(each) for each in zip(*(h[key] for h in histories), strict=True)]
                epoch = 1.0 if unit == "epoch" else _epoch_seconds(histories, (steps or {}).get(row.spec.label))
                positions = [epoch * number for number in range(1, len(curve) + 1)]
                line = {"marker": "o", "markersize": 3, **LINES[row.spec.activation]}
                axes.plot(positions, curve, label=row.spec.label, **line)
        below = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.15), "ncols": 2}  # lines fill the panel
        figure_style.legend(axes, **below)
        caption = f"{name.capitalize()} over the {unit}s of training, mean over seeds.{marks}"
        alt = f"One line for each activation: {name} over the {unit}s of training."
        figures.append(context.figure(f"{key}-per-{unit}", made, caption=caption, alt=alt))
    return figures


def _epoch_seconds(histories: Sequence[Mapping[str, Any]], step: float | None) -> float:
    """Seconds of an epoch: of steps that take `step` ms, else the median over the epochs of all seeds."""
    if step:
        return step / 1e3 * histories[0]["steps"] / len(histories[0]["loss"])
    return statistics.median(each for h in histories for each in h["training_seconds"])


def _claims(found: Study) -> list[Claim]:
    if found.no_verdict:
        return [claim(f"cifar.{key}", None, reason=found.no_verdict) for key in numbers.claims("cifar")]
    each = _differences(found)
    relu = stats.all_of([stats.better(each["isrlu", "relu"], MARGIN), stats.better(each["elu", "relu"], MARGIN)])
    here = f"Points of accuracy: ISRLU − ReLU {each['isrlu', 'relu']}, ELU − ReLU {each['elu', 'relu']}."
    unsure = f"Differences under {MARGIN} point are negligible. {study.NEEDS_SEEDS}"
    alike = stats.alike([each["isrlu", "elu"], each["isrlu3", "elu"]], MARGIN)
    beside = f"ISRLU α=1 − ELU {each['isrlu', 'elu']}, ISRLU α=3 − ELU {each['isrlu3', 'elu']} points of accuracy."
    normalised = stats.better(each["isrlu", "relu-bn"], MARGIN)
    against = f"ISRLU {each['isrlu', 'relu-bn']}, ELU {each['elu', 'relu-bn']} points of accuracy from that rival."
    return [
        claim("cifar.relu", relu, here, unsure if relu is None else "Not better here."),
        claim("cifar.elu", alike, beside, unsure if alike is None else "They differ."),
        claim("cifar.norm", normalised, against, unsure if normalised is None else "Batch normalisation is no worse."),
    ]

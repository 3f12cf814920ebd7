"""The tables and the figure of `normfree`."""

import statistics
from collections.abc import Sequence

from isrlu_lab.experiments import difference_table, figure_style, stats
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Column, Figure, Table
from isrlu_lab.experiments.study import Row, Study
from isrlu_lab.training.gpt.gpt_spec import ELEMENTWISE, NORMS, SWAPS, GptSpec

GOAL = 2.0  # nats per character
UNIT = "validation loss, nats"
COLOURS = {"layernorm": "ink", "rmsnorm": "purple", "dyt": "green", "derf": "vermillion", "dyisru": "blue"}


def losses(found: Study) -> Table:
    """The validation loss of each norm over the seeds, and the steps to the goal."""
    columns = [
        Column("norm"),
        Column("chosen"),
        Column(UNIT, "here", "{:.4f}"),
        Column("± (95 %)", "spread", "{:.4f}"),
        Column(f"steps to {GOAL}", "here", "{:,.0f}"),
        Column("runs", "here"),
    ]
    cells: list[list[Cell]] = []
    for row in found.rows:
        values = list(found.values(row, "final_loss").values())
        numbers = [*_mean(values), steps_to_goal(found, row), len(values)]
        cells.append([NORMS[row.spec.norm], row.spec.choice, *numbers])
    return Table(f"Validation loss after {found.rows[0].spec.steps:,} steps{found.marks}", columns, cells)


def compare(found: Study) -> dict[str, stats.Difference]:
    """norm -> its validation loss less LayerNorm's, paired by seed, with corrected p values."""
    values = {row.spec.norm: found.values(row, "final_loss") for row in found.rows}
    others = [norm for norm in values if norm != "layernorm"]
    compared = stats.corrected([stats.paired(values[norm], values["layernorm"]) for norm in others])
    return dict(zip(others, compared, strict=True))


def differences(found: Study) -> list[Table]:
    compared = [(NORMS[norm], UNIT, each) for norm, each in compare(found).items()]
    caption = "Less LayerNorm's loss, paired by seed: below 0 is better than LayerNorm" + found.marks
    return difference_table.table(caption, ("norm", "what"), "difference", compared, digits=4)


def swaps(found: Study) -> Table:
    """The loss at once and after further steps, for each kind of swap."""
    points = after(found.rows[0])
    columns = [Column("norms of the trained network")]
    for point in points:
        columns.append(Column(f"loss after {point} further steps", "here", "{:.4f}"))
        columns.append(Column("± (95 %)", "spread", "{:.4f}"))
    columns += [Column("lowest R² of a layer", "here", "{:.3f}"), Column("runs", "here")]
    cells: list[list[Cell]] = []
    for row in found.rows:
        numbers: list[Cell] = []
        for point in points:
            numbers += _mean(list(losses_after(found, row, point).values()))
        fits = [run.result["history"]["fit"] for run in found.of(row).values()]
        lowest = min((value for fit in fits for value in fit), default=None)
        cells.append([SWAPS[row.spec.swap], *numbers, lowest, len(found.of(row))])
    return Table(f"Trained LayerNorm networks with their norms swapped{found.marks}", columns, cells)


def _mean(values: Sequence[float]) -> list[float | None]:
    """The mean and half of its 95 % confidence interval; None for what there is none of."""
    if not values:
        return [None, None]
    found = stats.mean(values)
    return [found.value, found.half]


def after(row: Row) -> tuple[int, int, int]:
    """Where a swap is evaluated: further steps."""
    return 0, row.spec.further // 4, row.spec.further


def losses_after(found: Study, row: Row, point: int) -> dict[int, float]:
    """seed -> validation loss `point` steps after the swap."""
    histories = {seed: run.result["history"] for seed, run in found.of(row).items()}
    return {seed: each["validation"][each["steps"].index(point)] for seed, each in histories.items()}


def choices(found: Study, chosen: Sequence[Row[GptSpec]]) -> Table:
    """All candidates and which of them was chosen."""
    columns = [
        Column("norm"),
        Column("start of the weights"),
        Column("learning rate", "label", "{:g}"),
        Column("alpha at the start", "label", "{:g}"),
        Column(UNIT, "here", "{:.4f}"),
        Column("chosen"),
    ]
    taken = {(row.spec.norm, row.spec.choice) for row in chosen}
    cells: list[list[Cell]] = [
        [
            NORMS[row.spec.norm],
            row.spec.start,
            row.spec.rate,
            row.spec.alpha if row.spec.norm in ELEMENTWISE else None,
            next(iter(found.values(row, "final_loss").values()), None),
            "yes" if (row.spec.norm, row.spec.choice) in taken else "",
        ]
        for row in found.rows
    ]
    steps, seed = found.rows[0].spec.steps, found.seeds[0]
    return Table(f"The choice: {steps:,} steps on seed {seed}, which is not counted{found.marks}", columns, cells)


def steps_to_goal(found: Study, row: Row) -> float | None:
    """Mean number of steps until the first evaluation at the goal or below; None unless all runs reach it."""
    firsts = []
    for run in found.of(row).values():
        evaluations = zip(run.result["history"]["steps"], run.result["history"]["validation"], strict=True)
        firsts.append(next((step for step, loss in evaluations if loss <= GOAL), None))
    reached = [first for first in firsts if first is not None]
    return statistics.mean(reached) if reached and len(reached) == len(firsts) else None


def curves(context: Context, found: Study) -> Figure:
    """The validation loss in training, one line for each norm."""
    made, axes = figure_style.panel(f"Character-level GPT\n{found.marks.strip()}".strip(), "step", UNIT)
    for row in found.rows:
        histories = [run.result["history"] for run in found.of(row).values()]
        if histories:
            middle, low, high = stats.band([history["validation"] for history in histories])
            line, steps = figure_style.LINES[COLOURS[row.spec.norm]], histories[0]["steps"]
            axes.plot(steps, middle, label=NORMS[row.spec.norm], **line)
            axes.fill_between(steps, low, high, color=line["color"], alpha=0.2, linewidth=0)
    figure_style.legend(axes)
    caption = f"Validation loss in training, mean over seeds with its 95 % confidence band.{found.marks}"
    return context.figure("curves", made, caption=caption, alt="Five learning curves, one for each norm.")

"""Figures of the MNIST experiments: learning curves with confidence bands, mean activations, learned alphas."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import MaxNLocator

from isrlu_lab.experiments import figure_style, stats
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Figure
from isrlu_lab.experiments.study import Row, Study

History = Mapping[str, Any]
Curve = Callable[[History], tuple[Sequence[float], Sequence[float]]]  # x and y of one run
BANDS = "mean over seeds, with its 95 % confidence band"


def learning_curves(context: Context, study: Study, name: str, what: str) -> list[Figure]:
    """Training loss and test accuracy over epochs: two figures for each dropout rate."""
    figures = []
    for pkeep in dict.fromkeys(row.spec.pkeep for row in study.rows):
        members = [row for row in study.rows if row.spec.pkeep == pkeep]
        made, axes = _panel(study, f"Training loss, pkeep {pkeep}", "epoch", "cross-entropy")
        _draw(axes, study, members, lambda h: (_epochs(h, "train_steps"), h["train_loss"]))
        axes.set_yscale("log")
        figure_style.legend(axes)
        caption = f"Training loss, {what}, pkeep {pkeep}: {BANDS}.{study.marks}"
        alt = "The training loss falls over the epochs; one line for each activation function."
        figures.append(context.figure(f"{name}-loss-{pkeep}", made, caption=caption, alt=alt))
        made, axes = _panel(study, f"Test accuracy, pkeep {pkeep}", "epoch", "%")
        _draw(axes, study, members, lambda h: (_epochs(h, "test_steps"), h["test_accuracy"]))
        if study.full and study.identity == "mnist":
            best = [run.result["best_accuracy"] for row in members for run in study.of(row).values()]
            axes.set_ylim(bottom=min([98.0, *(each - 0.5 for each in best)]))  # no curve is cut off
        figure_style.legend(axes)
        caption = f"Test accuracy, {what}, pkeep {pkeep}: {BANDS}.{study.marks}"
        alt = "The test accuracy rises over the epochs; one line for each activation function."
        figures.append(context.figure(f"{name}-accuracy-{pkeep}", made, caption=caption, alt=alt))
    return figures


def mean_activations(context: Context, study: Study, name: str, what: str) -> list[Figure]:
    """Mean activation of the hidden units: over the epochs (mean over layers), and by layer after training."""
    pkeep = study.rows[0].spec.pkeep
    members = [row for row in study.rows if row.spec.pkeep == pkeep]
    made, axes = _panel(study, "Mean activation in training", "epoch", "mean over hidden layers")
    _draw(axes, study, members, lambda h: (h["unit_epochs"], [statistics.mean(each) for each in h["unit_mean"]]))
    axes.axhline(0.0, color=figure_style.INK, linewidth=0.8)
    figure_style.legend(axes)
    caption = f"Mean activation of the hidden units, {what}, pkeep {pkeep}; epoch 0 is before training: {BANDS}."
    alt = "Distance of the units' mean activation from zero over the epochs; one line for each activation function."
    over_epochs = context.figure(f"{name}-epochs", made, caption=caption + study.marks, alt=alt)

    made, axes = _panel(study, "Mean activation by layer", "hidden layer", "after training")
    _draw(axes, study, members, lambda h: (_layers(h), h["unit_mean"][-1]))
    dots = {"linestyle": "none", "marker": "o", "markersize": 5, "markerfacecolor": "none"}
    _draw(axes, study, members, lambda h: (_layers(h), h["unit_median"][-1]), dots)
    axes.axhline(0.0, color=figure_style.INK, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure_style.legend(axes)
    caption = (
        f"Mean activation by hidden layer after training, {what}, pkeep {pkeep}: "
        f"the mean over a layer's units (line: {BANDS}) and their median (circles)."
    )
    alt = "Mean and median over units of the mean activation of each hidden layer, for each activation function."
    return [over_epochs, context.figure(f"{name}-layers", made, caption=caption + study.marks, alt=alt)]


def learned_alphas(context: Context, study: Study, name: str) -> list[Figure]:
    """The learned alpha of each layer over the epochs; one figure for each initial value."""
    figures = []
    for row in study.rows:
        histories = [run.result["history"] for run in study.of(row).values()]
        made, axes = _panel(study, f"Learned α, from α = {row.spec.alpha:g}", "epoch", "α")
        for layer, line in zip(range(4), figure_style.LINES.values(), strict=False):
            curves = [[each[layer] for each in history["alphas"]] for history in histories]
            if curves:
                _band(axes, histories[0]["unit_epochs"], curves, f"layer {layer + 1}", line)
        figure_style.legend(axes)
        caption = f"Learned α of each hidden layer, starting at {row.spec.alpha:g}: {BANDS}.{study.marks}"
        alt = "One line for each layer: its alpha during training."
        figures.append(context.figure(f"{name}-{row.spec.alpha:g}", made, caption=caption, alt=alt))
    return figures


def _panel(study: Study, title: str, x: str, y: str) -> tuple[MplFigure, Axes]:
    """A panel whose title includes the study's marks (quick preset, other data)."""
    return figure_style.panel(f"{title}\n{study.marks.strip()}".strip(), x, y)


def _draw(axes: Axes, study: Study, rows: Sequence[Row], curve: Curve, line: Mapping[str, Any] | None = None) -> None:
    for row, colour in zip(rows, _colours(rows), strict=True):
        found = [curve(run.result["history"]) for run in study.of(row).values()]
        if found:
            label = None if line else row.spec.name
            _band(axes, found[0][0], [y for _, y in found], label, {**figure_style.LINES[colour], **(line or {})})


def _band(
    axes: Axes, x: Sequence[float], curves: Sequence[Sequence[float]], label: str | None, line: Mapping[str, Any]
) -> None:
    middle, low, high = stats.band(curves)
    marker = {} if len(x) > 2 else {"marker": "o"}  # a line through one point is invisible
    axes.plot(x, middle, label=label, **{**marker, **line, "linewidth": 1.6})
    if len(curves) > 1 and label:
        axes.fill_between(x, low, high, color=line["color"], alpha=0.2, linewidth=0)


def _colours(rows: Sequence[Row]) -> list[str]:
    """A colour for each row: as in figure 1 if it shows all of these functions, else in the palette's order."""
    known = {"ISRLU α=1.0": "blue", "ISRLU α=3.0": "vermillion", "ELU": "green", "ReLU": "ink"}
    names = [row.spec.name for row in rows]
    if set(names) <= set(known):
        return [known[name] for name in names]
    palette = list(figure_style.LINES)
    return [palette[number % len(palette)] for number in range(len(rows))]


def _layers(history: History) -> list[float]:
    return [layer + 1.0 for layer in range(len(history["unit_mean"][-1]))]


def _epochs(history: History, key: str) -> list[float]:
    return list(np.asarray(history[key]) / history["steps_per_epoch"])

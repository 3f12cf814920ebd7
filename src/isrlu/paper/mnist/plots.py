"""Learning curves with confidence bands, mean activations, and learned alphas, as figures of the report."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from isrlu.paper import style
from isrlu.paper.experiment import Context, Figure
from isrlu.paper.mnist import stats
from isrlu.paper.mnist.study import Row, Study
from isrlu.paper.mnist.tables import marks

Curve = Callable[[Mapping[str, list]], tuple[list[float], list[float]]]


def learning_curves(context: Context, study: Study, rows: Sequence[Row], name: str, what: str) -> Figure:
    """Training loss and test accuracy over epochs, a panel of each for every dropout."""
    groups = _by_dropout(rows)
    made, axes = style.figure(len(groups), 2, width=4.6, height=3.3)
    for number, (pkeep, members) in enumerate(groups.items()):
        left, right = axes[2 * number : 2 * number + 2]
        _draw(left, study, members, lambda h: (_epochs(h, "train_steps"), h["train_loss"]))
        left.set_yscale("log")
        left.set(title=f"Training loss, pkeep {pkeep}", xlabel="epoch", ylabel="cross-entropy")
        _draw(right, study, members, lambda h: (_epochs(h, "test_steps"), h["test_accuracy"]))
        right.set(title=f"Test accuracy, pkeep {pkeep}", xlabel="epoch", ylabel="%")
        if study.full:
            right.set_ylim(bottom=97.5)
        style.legend(left)
    return context.figure(
        name,
        made,
        caption=f"Learning curves, {what}: mean over seeds, with its 95 % confidence band.{marks(study)}",
        alt="Training loss falls and test accuracy rises over the epochs; one line for each activation function.",
    )


def mean_activations(context: Context, study: Study, rows: Sequence[Row], name: str, what: str) -> Figure:
    """Each hidden layer's mean activation over epochs (mean over units: line; median over units: dots)."""
    layers = 4 if rows[0].spec.architecture == 1 else 5
    made, axes = style.figure((layers + 1) // 2, 2, width=4.6, height=2.9)
    shown = rows if len(_by_dropout(rows)) == 1 else [row for row in rows if row.spec.pkeep == rows[0].spec.pkeep]
    for layer, panel in enumerate(axes):
        if layer >= layers:
            panel.set_visible(False)
            continue
        _draw(panel, study, shown, lambda h, i=layer: (h["unit_epochs"], [each[i] for each in h["unit_mean"]]))
        _draw(
            panel,
            study,
            shown,
            lambda h, i=layer: (h["unit_epochs"], [each[i] for each in h["unit_median"]]),
            {"linestyle": "none", "marker": ".", "markersize": 4},
        )
        panel.axhline(0.0, color=style.INK, linewidth=0.8)
        kind = "dense layer" if layer == layers - 1 else f"convolution {layer + 1}"
        panel.set(title=f"Hidden layer {layer + 1} ({kind})", xlabel="epoch", ylabel="mean activation")
    style.legend(axes[0])
    return context.figure(
        name,
        made,
        caption=f"Mean activation of the hidden units, {what}, pkeep {shown[0].spec.pkeep}: the mean over a layer's "
        f"units (line) and their median (dots); epoch 0 is before training.{marks(study)}",
        alt="One panel for each hidden layer; lines show how far from zero the units' mean activation is.",
    )


def learned_alphas(context: Context, study: Study, rows: Sequence[Row], name: str) -> Figure:
    """Where learnable alphas go, layer by layer."""
    made, axes = style.figure(1, len(rows), width=4.4, height=3.3)
    for panel, row in zip(axes, rows, strict=True):
        histories = [run.result["history"] for run in study.of(row).values()]
        lines = list(style.LINES.values())
        for layer in range(len(histories[0]["alphas"][0]) if histories else 0):
            curves = [[each[layer] for each in history["alphas"]] for history in histories]
            _band(panel, histories[0]["unit_epochs"], curves, f"layer {layer + 1}", lines[layer % len(lines)])
        panel.set(title=f"Start at α = {row.spec.alpha:g}", xlabel="epoch", ylabel="α")
    style.legend(axes[0])
    return context.figure(
        name,
        made,
        caption=f"Learned α of each layer: mean over seeds, with its 95 % confidence band.{marks(study)}",
        alt="One line for each layer shows how its alpha moves from its start during training.",
    )


def _by_dropout(rows: Sequence[Row]) -> dict[float, list[Row]]:
    groups: dict[float, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.spec.pkeep, []).append(row)
    return groups


def _draw(
    axes: Axes, study: Study, rows: Sequence[Row], curve: Curve, look: Mapping[str, object] | None = None
) -> None:
    for row, colour in zip(rows, _colours(rows), strict=True):
        found = [curve(run.result["history"]) for run in study.of(row).values()]
        if found:
            label = None if look else row.spec.name
            _band(axes, found[0][0], [values for _, values in found], label, {**style.LINES[colour], **(look or {})})


def _band(axes: Axes, x: Sequence[float], curves: list[list[float]], label: str | None, line: Mapping) -> None:
    middle, low, high = stats.band(curves)
    axes.plot(x, middle, label=label, **{"linewidth": 1.5, **line})
    if len(curves) > 1 and label:
        axes.fill_between(x, low, high, color=line["color"], alpha=0.2, linewidth=0)


def _colours(rows: Sequence[Row]) -> list[str]:
    """A colour for each row: as in figure 1 where the rows are its functions, else in the order of the palette."""
    known = {"ISRLU α=1.0": "blue", "ISRLU α=3.0": "vermillion", "ELU": "green", "ReLU": "ink"}
    names = [row.spec.name for row in rows]
    return [known[name] for name in names] if set(names) <= set(known) else list(style.LINES)[: len(rows)]


def _epochs(history: Mapping[str, list], key: str) -> list[float]:
    return list(np.asarray(history[key]) / history["steps_per_epoch"])

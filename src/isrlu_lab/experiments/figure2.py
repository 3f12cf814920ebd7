"""Figure 2: ISRU and tanh. Beyond the paper: isru_sigmoid and the sigmoid, and the differences of both pairs."""

import numpy as np
from matplotlib.figure import Figure as MplFigure

from isrlu_lab.experiments import curves, figure_style
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Cell, Column, Figure, Result, Table, claim

X = np.linspace(-8, 8, 1601)


def run(context: Context) -> Result:
    """Draw ISRU with tanh and isru_sigmoid with the sigmoid, and measure their differences."""
    context.progress("drawing", 0, 3)
    figures = _figures(context)
    pairs: dict[str, tuple[curves.Callable, curves.Callable]] = {
        "ISRU and tanh": (curves.isru, np.tanh),
        "isru_sigmoid and sigmoid": (curves.isru_sigmoid, curves.sigmoid),
    }
    apart = [_differences(f, g) for f, g in pairs.values()]
    rows: list[list[Cell]] = [[name, *distances] for name, distances in zip(pairs, apart, strict=True)]
    columns = [
        Column("pair"),
        Column("largest difference", "here", "{:.4f}"),
        Column("at x = ±", "here", "{:.2f}"),
        Column("mean difference on [-8, 8]", "here", "{:.4f}"),
    ]
    tanh, sigmoid = apart[0][0], apart[1][0]
    claims = [
        claim("figure2.tanh", tanh < 0.1, f"at most {tanh:.3f} apart (α = 1), of a range of 2; same slope at 0."),
        claim("figure2.sigmoid", sigmoid < 0.05, f"at most {sigmoid:.3f} apart, of a range of 1; same slope 1/4 at 0."),
    ]
    return Result(
        [Table("Difference between the inverse square root unit and the function it replaces", columns, rows)],
        claims,
        figures,
        [NOTE],
    )


NOTE = (
    "Near 0 the curves agree to second order. For large |x| tanh and the sigmoid approach their limits exponentially, "
    "ISRU as 1/(2x²). A unit far in saturation keeps a gradient of about 1/|x|³ where that of tanh has vanished."
)


def _differences(f: curves.Callable, g: curves.Callable) -> list[float]:
    """Largest |f - g|, the |x| where it occurs, and mean |f - g|."""
    difference = np.abs(f(X) - g(X))
    worst = int(difference.argmax())
    return [float(difference[worst]), float(abs(X[worst])), float(difference.mean())]


def _figures(context: Context) -> list[Figure]:
    isru, tanh, isru_sigmoid, sigmoid = curves.isru(X), np.tanh(X), curves.isru_sigmoid(X), curves.sigmoid(X)
    apart = {"ISRU - tanh": isru - tanh, "isru_sigmoid - sigmoid": isru_sigmoid - sigmoid}
    return [
        context.figure(
            "isru-tanh",
            _draw("ISRU and tanh", "f(x)", {"ISRU, α = 1": isru, "tanh": tanh}),
            caption="Figure 2: ISRU (α = 1) and tanh.",
            alt="Two S-shaped curves from -1 to 1 with the same slope at 0; tanh reaches its limits sooner.",
        ),
        context.figure(
            "isru-sigmoid",
            _draw("isru_sigmoid and the sigmoid", "f(x)", {"isru_sigmoid": isru_sigmoid, "sigmoid": sigmoid}),
            caption="Beyond the paper: (1 + ISRU(x/2))/2, ISRU shifted and scaled, and the logistic sigmoid.",
            alt="Two S-shaped curves from 0 to 1 with slope one quarter at 0; the sigmoid reaches its limits sooner.",
        ),
        context.figure(
            "differences",
            _draw("Differences", "difference", apart, limits=(-0.16, 0.16)),
            caption="Beyond the paper: the differences of the two pairs.",
            alt="The difference of ISRU and tanh stays within 0.08 either way, that of the sigmoids within 0.04.",
        ),
    ]


def _draw(title: str, y: str, lines: dict[str, curves.Array], limits: tuple[float, float] | None = None) -> MplFigure:
    """Two lines over X, with their labels."""
    made, axes = figure_style.panel(title, "x", y)
    for (label, values), colour in zip(lines.items(), ("blue", "vermillion"), strict=True):
        axes.plot(X, values, label=label, **figure_style.LINES[colour])
    axes.set(xlim=(X[0], X[-1]), ylim=limits)
    figure_style.legend(axes, loc="upper left")
    return made

"""Figure 1: ISRLU (alpha 1 and 3), ELU, ReLU and their first derivatives.

Beyond the paper: second derivatives, and ISRLU over a range of alpha.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as MplFigure
from matplotlib.typing import ColorType

from isrlu_lab.experiments import curves, figure_style
from isrlu_lab.experiments.context import Context
from isrlu_lab.experiments.experiment import Claim, Column, Figure, Result, Table, claim

LEFT = np.linspace(-6, 0, 1201)[:-1]
RIGHT = np.linspace(0, 2.5, 501)
FAMILY = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
BLUE, VERMILLION = (str(figure_style.LINES[name]["color"]) for name in ("blue", "vermillion"))


def run(context: Context) -> Result:
    """Draw the four panels and check the paper's statements about the curves numerically."""
    figures = []
    for count, draw in enumerate((_functions, _first, _second, _family)):
        context.progress(f"drawing {draw.__name__[1:]}", count, 4)
        figures.append(draw(context))
    return Result(tables=[_table()], claims=_claims(), figures=figures, notes=[NOTE])


NOTE = (
    "ISRLU and ELU differ in the second derivative. Both halves of ISRLU have the same value, slope and second "
    "derivative at 0 (0, 1, 0). ELU's second derivative jumps from 1 to 0. ISRLU's third derivative jumps at 0 (from "
    "-3 alpha to 0), so ISRLU is twice continuously differentiable, not infinitely often."
)


def _draw(title: str, y: str, which: str, limits: tuple[float, float], jumps: str = "") -> tuple[MplFigure, Axes]:
    """All curves ("value") or their derivatives ("first", "second"); one that `jumps` at 0 is drawn in two halves."""
    made, axes = figure_style.panel(title, "x", y)
    for curve in curves.FIGURE1:
        if function := getattr(curve, which):
            parts = [np.append(LEFT, -1e-12), RIGHT] if curve.label == jumps else [np.concatenate([LEFT, RIGHT])]
            for count, x in enumerate(parts):
                label = curve.label if count == 0 else None
                axes.plot(x, function(x), label=label, **figure_style.LINES[curve.line])
    axes.set(xlim=(LEFT[0], RIGHT[-1]), ylim=limits)
    figure_style.legend(axes, loc="upper left")
    return made, axes


def _functions(context: Context) -> Figure:
    return context.figure(
        "functions",
        _draw("Activation functions", "f(x)", "value", (-1.25, 2.5))[0],
        caption="Figure 1, left: ISRLU (α = 1 and α = 3), ELU and ReLU.",
        alt="Four curves that are the identity right of 0. Left of 0, ISRLU with alpha 1 and ELU fall towards -1, "
        "ISRLU with alpha 3 towards -0.577, and ReLU is 0.",
    )


def _first(context: Context) -> Figure:
    return context.figure(
        "first-derivatives",
        _draw("First derivatives", "f′(x)", "first", (-0.08, 1.15), jumps="ReLU")[0],
        caption="Figure 1, right: their first derivatives. ISRLU's and ELU's are continuous; ReLU's jumps at 0.",
        alt="First derivatives: all are 1 right of 0; left of 0 ISRLU's and ELU's fall smoothly to 0, ReLU's is 0.",
    )


def _second(context: Context) -> Figure:
    made, axes = _draw("Second derivatives", "f″(x)", "second", (-0.1, 1.65), jumps="ELU")
    colour = figure_style.LINES["green"]["color"]
    axes.plot([0], [1], "o", color=colour, markerfacecolor="white", markersize=6, zorder=5)
    axes.plot([0], [0], "o", color=colour, markersize=6, zorder=5)
    axes.annotate("ELU jumps\nfrom 1 to 0", (0, 1), (0.35, 1.05), va="center", fontsize=9.5, color=figure_style.INK)
    return context.figure(
        "second-derivatives",
        made,
        caption="Beyond the paper: the second derivatives. ISRLU's reaches 0 at 0 and stays there; ELU's jumps.",
        alt="Second derivatives: ISRLU's have a maximum left of 0 and fall to 0 at 0 continuously. ELU's rises to 1 "
        "and jumps to 0 at 0.",
    )


def _family(context: Context) -> Figure:
    made, axes = figure_style.panel("The α family, from linear to ReLU", "x", "f(x)")
    x = np.concatenate([LEFT, RIGHT])
    for place, alpha in enumerate(FAMILY):
        share = place / (len(FAMILY) - 1)
        blend = _mix_colours(BLUE, VERMILLION, share)
        colour = _mix_colours(blend, "white", 0.15) if 0 < share < 1 else blend  # lighter, for dark pages
        axes.plot(x, curves.isrlu(x, alpha), color=colour, linewidth=1.8)
        at = max(LEFT[0] + 0.1, _x_at_level(alpha, -2.3))  # at the left edge, or where the curve leaves the panel
        height = float(curves.isrlu(np.array([at]), alpha)[0])
        note = {0.0: ", linear", FAMILY[-1]: ", nearly ReLU"}.get(alpha, "")
        offset = (3, 2.5) if at == LEFT[0] + 0.1 else (9, -3)
        text = f"α = {alpha:g}{note}"
        axes.annotate(text, (at, height), offset, textcoords="offset points", fontsize=8.5, color=figure_style.INK)
    axes.set(xlim=(LEFT[0], 1.1), ylim=(-2.5, 1.1))
    return context.figure(
        "alpha-family",
        made,
        caption="Beyond the paper: ISRLU for α = 0 (linear), 0.1, 0.3, 1, 3, 10 and 100 (nearly ReLU).",
        alt="Seven curves that agree right of 0. Left of 0 they are flatter the larger alpha is: a straight line for "
        "alpha 0, nearly 0 for alpha 100.",
    )


def _mix_colours(start: ColorType, end: ColorType, share: float) -> tuple[float, float, float]:
    """The RGB colour at `share` of the way from `start` (0) to `end` (1)."""
    red, green, blue = (1 - share) * np.array(to_rgb(start)) + share * np.array(to_rgb(end))
    return red, green, blue


def _x_at_level(alpha: float, level: float) -> float:
    """The x < 0 with ISRLU(x) = `level`: level / sqrt(1 - alpha level^2), or -inf if ISRLU stays above `level`."""
    rest = 1 - alpha * level * level
    return level / rest**0.5 if rest > 0 else -np.inf


def _step_at_zero(first: curves.Callable, h: float = 1e-6) -> tuple[float, float]:
    """The second derivative left and right of 0, by finite differences of the first derivative."""
    left, middle, right = (float(first(np.array([x]))[0]) for x in (-h, 0.0, h))
    return (middle - left) / h, (right - middle) / h


def _table() -> Table:
    columns = [
        Column("function"),
        Column("f(-∞)", "here", "{:.4f}"),
        Column("f′ left of 0", "here", "{:.3f}"),
        Column("f′ right of 0", "here", "{:.3f}"),
        Column("f″ left of 0", "here", "{:.3f}"),
        Column("f″ right of 0", "here", "{:.3f}"),
    ]
    rows = []
    for curve in curves.FIGURE1:
        far = float(curve.value(np.array([-1e8]))[0])
        slopes = [float(curve.first(np.array([x]))[0]) for x in (-1e-9, 1e-9)]
        second = _step_at_zero(curve.first) if curve.second else (None, None)
        rows.append([curve.label, far + 0.0, *slopes, *second])
    return Table("Saturation, and the derivatives on both sides of 0", columns, rows)


def _claims() -> list[Claim]:
    x = np.linspace(-40, 0, 400_001)[:-1]
    steps = {
        name: abs(a - b)
        for name, (a, b) in {"ISRLU": _step_at_zero(curves.isrlu_grad), "ELU": _step_at_zero(curves.elu_grad)}.items()
    }
    apart = float(np.abs(curves.isrlu(x) - curves.elu(x)).max())
    low1, low3 = (float(curves.isrlu(np.array([-1e8]), alpha)[0]) for alpha in (1, 3))
    near = np.linspace(-6, 0, 6001)
    linear = float(np.abs(curves.isrlu(near, 1e-12) - near).max())
    relu = float(np.abs(curves.isrlu(near, 1e12)).max())
    root = curves.isru(x) / x
    cube = float(np.abs(root**3 / curves.isrlu_grad(x) - 1).max())
    return [
        claim(
            "figure1.second",
            steps["ISRLU"] < 1e-3 < 0.5 < steps["ELU"],
            f"the second derivative steps by {steps['ISRLU']:.1e} (ISRLU) and {steps['ELU']:.3f} (ELU) at 0.",
        ),
        claim("figure1.curves", apart < 0.1, f"at most {apart:.3f} apart for x < 0 (α = 1), of a range of 1."),
        claim("figure1.saturation", abs(low1 + 1) < 1e-6 and low1 < low3 < 0, f"{low1:.4f} and {low3:.4f}."),
        claim(
            "figure1.family",
            linear < 1e-6 and relu < 2e-6,
            f"on [-6, 0], {linear:.0e} from linear at α = 1e-12 and {relu:.0e} from ReLU at α = 1e12.",
        ),
        claim("figure1.cube", cube < 1e-14, f"cube and derivative agree to {cube:.1e}."),
    ]

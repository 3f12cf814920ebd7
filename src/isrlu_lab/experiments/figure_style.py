"""The style of all figures: a colour-blind-safe palette, one line style per colour, transparent SVG for dark pages."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INK = "#24292f"
"""Colour of text and axes. On a dark page the report inverts the brightness of figures and keeps their hues."""

# The Okabe-Ito palette without the colours that are pale on white. Line styles differ too, for print in grey.
LINES: dict[str, dict[str, Any]] = {
    "blue": {"color": "#0072b2", "linestyle": "-", "linewidth": 2},
    "vermillion": {"color": "#d55e00", "linestyle": "--", "linewidth": 2},
    "green": {"color": "#009e73", "linestyle": "-.", "linewidth": 2},
    "purple": {"color": "#b6609a", "linestyle": (0, (1, 1.2)), "linewidth": 2.2},
    "ink": {"color": INK, "linestyle": (0, (5, 1.5, 1, 1.5, 1, 1.5)), "linewidth": 1.8},
}

_RC: dict[Any, Any] = {
    "font.size": 10.5,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#8b949e",
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.handlelength": 2.8,
    "axes.facecolor": "none",
    "savefig.bbox": "tight",
}


def panel(title: str, x: str, y: str, *, width: float = 5.4, height: float = 3.7) -> tuple[Figure, Axes]:
    """A figure with one panel in this style. One panel per figure stays readable on a phone."""
    with mpl.rc_context(_RC):
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots()
        axes.set(xlabel=x, ylabel=y)
        axes.set_title(title, parse_math=False)  # it may contain the name of a data folder
        axes.tick_params(colors=INK)
        return made, axes


def legend(axes: Axes, **options: Any) -> None:
    """Add a legend in this style, if any line has a label."""
    if not axes.get_legend_handles_labels()[0]:
        return
    with mpl.rc_context(_RC):
        axes.legend(**options)


def render(made: Figure, ending: str, *, salt: str) -> bytes:
    """The figure as "svg" (transparent, reproducible ids) or "png" (white, 160 dpi)."""
    buffer = io.BytesIO()
    white = ending == "png"
    with mpl.rc_context({**_RC, "svg.hashsalt": salt}):
        made.savefig(
            buffer,
            format=ending,
            dpi=160,
            facecolor="white" if white else "none",
            metadata={"Software": None} if white else {"Date": None, "Creator": None},
        )
    return buffer.getvalue()

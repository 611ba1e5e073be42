"""Figures as SVG; learning curves: a line and a band for each group."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from rlcomp.report.groups import Group
from rlcomp.report.statistics import band, curve

# Told apart on white and on black, and by the colour-blind (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")
# Stands for the page's own text colour, which follows its theme.
INK = "#010203"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rlcomp",
    "text.parse_math": False,
    "font.family": "sans-serif",
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    ),
}


def colour_of(index: int) -> str:
    """The colour of the ``index``-th group; they come again after eight."""
    return COLOURS[index % len(COLOURS)]


def style() -> AbstractContextManager[None]:
    """How figures of a page look; they are made and drawn inside."""
    import matplotlib

    return matplotlib.rc_context(_STYLE)


def blank(width: float, height: float) -> Any:  # noqa: ANN401
    """An empty figure, of so many inches; needs no display."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def as_svg(figure: Any) -> str:  # noqa: ANN401
    """A figure as an ``<svg>`` element in the colours of the page it stands in."""
    file = io.StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with style():
        figure.savefig(file, format="svg", transparent=True, metadata=metadata)
    svg = file.getvalue()
    svg = re.sub(r" font-family: [^;]*;", "", svg[svg.index("<svg") :])  # the page's own
    return re.sub(r"\n\s*", "\n", svg.replace(INK, "currentColor"))


def curves(groups: Sequence[Group], metric: str) -> str:
    """One metric of all groups, as an ``<svg>`` element.

    Mean and range over the finished runs; each run that has not finished, dashed.
    """
    with style():
        figure = blank(6.4, 3.2)
        axes = figure.add_subplot()
        for index, group in enumerate(groups):
            _draw(axes, group, metric, colour_of(index))
        axes.set_xlabel("step")
        axes.grid(alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
    return as_svg(figure)


def _draw(axes: object, group: Group, metric: str, colour: str) -> None:
    line, fill = axes.plot, axes.fill_between  # type: ignore[attr-defined]
    found = band(group.finished, metric)
    if found is not None:
        steps, mean, low, high = found
        fill(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        line(steps, mean, color=colour, marker="o" if len(steps) < 20 else None, markersize=3)
    for run in group.runs:
        if run.state not in ("finished", "repeated"):
            line(*curve(run, metric), color=colour, linestyle="--", linewidth=0.8)

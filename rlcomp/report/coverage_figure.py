"""Coverage curves of two runs as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.functional.coverage import Point
from rlcomp.report.coverage import Comparison

_BASE, _TRAINED, _INK = "#6c757d", "#0072b2", "#1c1e21"


def coverage_figure(
    comparisons: Mapping[str, Comparison],
    *,
    names: tuple[str, str] = ("base", "trained"),
    measure: str = "pass@k",
) -> Any:  # noqa: ANN401
    """Draw a panel for each comparison: both curves with their intervals, and their crossings.

    Significant crossings are lines, crossings that may be chance are dotted lines.

    Args:
        comparisons: comparisons by title.
        names: names of the two runs.
        measure: label of the curves.

    Returns:
        A matplotlib figure.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Titles are not formulas.
    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(3.6 * len(comparisons) + 0.4, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        for place, (title, comparison) in enumerate(comparisons.items(), 1):
            axes = figure.add_subplot(1, len(comparisons), place)
            _draw(axes, comparison, names)
            axes.set_title(f"{title} ({comparison.problems} problems)", fontsize=10)
            axes.set_ylabel(measure if place == 1 else "")
            axes.legend(frameon=False)
    return figure


def _draw(axes: Any, comparison: Comparison, names: tuple[str, str]) -> None:  # noqa: ANN401
    for points, name, colour in zip(
        (comparison.base, comparison.trained), names, (_BASE, _TRAINED), strict=True
    ):
        _curve(axes, points, name, colour)
    for crossing in comparison.crossings:
        middle = (crossing.before * crossing.after) ** 0.5
        style = "-" if crossing.shown else ":"
        axes.axvline(middle, color=_INK, linestyle=style, linewidth=1, alpha=0.6)
    axes.set_xscale("log", base=2)
    ticks = [point.k for point in comparison.base]
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xlabel("k")
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)


def _curve(axes: Any, points: Sequence[Point], name: str, colour: str) -> None:  # noqa: ANN401
    ks = [point.k for point in points]
    axes.plot(ks, [point.mean for point in points], color=colour, label=name, marker="o", ms=3)
    lows, highs = [point.low for point in points], [point.high for point in points]
    axes.fill_between(ks, lows, highs, color=colour, alpha=0.15, linewidth=0)

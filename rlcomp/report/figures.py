"""Figures of fronts, reliability and coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rlcomp.files.atomic_write import atomic_write
from rlcomp.functional.coverage import CoveragePoint
from rlcomp.functional.pareto_front import nondominated
from rlcomp.functional.statistics import Bin
from rlcomp.report.coverage import CoverageComparison
from rlcomp.report.returns import Rows, evaluation_path, returns_by_preference
from rlcomp.report.statistics import Array

ON_FRONT = "not dominated"
_INK, _PREFERENCE = "#1c1e21", "#d55e00"
_BASE, _TRAINED = "#6c757d", "#0072b2"


def run_figure(rows: Rows, names: Sequence[str]) -> Any:  # noqa: ANN401
    """Draw the returns of a run's evaluations, and the last returns of each preference.

    Args:
        rows: rows of the run's record.
        names: names of the objectives; each pair has a panel.

    Returns:
        A matplotlib figure; None without evaluations.
    """
    steps, path = evaluation_path(rows, names)
    last = returns_by_preference(rows, names)
    if not len(path) and not last:
        return None
    panels = len(names) * (len(names) - 1) // 2
    with _new_figure((4.8, 3.6) if panels == 1 else (9.6, 3.2 * -(-panels // 3))) as figure:
        for axes, pair in _panels(figure, names):
            if len(path):
                _draw_path(axes, steps, path[:, pair])
            if last:
                _draw_preferences(axes, last, pair)
    return figure


@contextmanager
def _new_figure(size: tuple[float, float]) -> Iterator[Any]:
    """Yield a new matplotlib figure that draws ``$`` in texts as a character."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def _panels(figure: Any, names: Sequence[str]) -> Iterator[tuple[Any, list[int]]]:  # noqa: ANN401
    """Yield the axes and the indices of every pair of objectives."""
    pairs = list(combinations(range(len(names)), 2))
    across = min(len(pairs), 3)
    for number, pair in enumerate(pairs, 1):
        axes = figure.add_subplot(-(-len(pairs) // across), across, number)
        axes.set_xlabel(names[pair[0]])
        axes.set_ylabel(names[pair[1]])
        axes.grid(alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
        yield axes, list(pair)


def _draw_path(axes: Any, steps: Array, path: Array) -> None:  # noqa: ANN401
    axes.plot(*path.T, color=_INK, alpha=0.3, linewidth=0.8)
    # The brightest tenth is invisible on white.
    axes.scatter(*path.T, c=steps, cmap="viridis", vmax=steps[0] + (np.ptp(steps) or 1) / 0.9, s=24)
    for index in sorted({0, len(steps) - 1}):
        _annotate(axes, f"step {steps[index]:.0f}", path[index])


def _draw_preferences(axes: Any, returns: dict[str, Array], pair: list[int]) -> None:  # noqa: ANN401
    points = np.stack(list(returns.values()))
    axes.scatter(*points[:, pair].T, color=_PREFERENCE, marker="D", s=24)
    front = points[nondominated(points)][:, pair]
    axes.scatter(*front.T, facecolors="none", edgecolors=_INK, s=90, label=ON_FRONT)
    for label, point in returns.items():
        _annotate(axes, label, point[pair])


def _annotate(axes: Any, text: str, point: Array) -> None:  # noqa: ANN401
    axes.annotate(text, point, xytext=(4, 4), textcoords="offset points", fontsize=8)


def save_reliability(bins: Sequence[Bin], path: Path, title: str) -> None:
    """Draw the frequency of predicted events against their predicted probability.

    Args:
        bins: :func:`rlcomp.functional.statistics.reliability`; 95 % normal intervals are drawn.
        path: the picture, a PNG; its directory is created.
        title: title of the picture.
    """
    with _new_figure((4, 3.6)) as figure:
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1, label="calibrated")
        half_widths = [1.96 * (b.accuracy * (1 - b.accuracy) / b.number) ** 0.5 for b in bins]
        x, y = [b.confidence for b in bins], [b.accuracy for b in bins]
        axes.errorbar(x, y, yerr=half_widths, marker="o", markersize=4, color="#0072b2", capsize=2)
        axes.set(xlim=(0, 1), ylim=(-0.02, 1.02), title=title)
        axes.set_xlabel("predicted probability of the first answer")
        axes.set_ylabel("share of pairs that chose the first answer")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as draft:
            figure.savefig(draft, dpi=150, format="png")


def coverage_figure(
    comparisons: Mapping[str, CoverageComparison],
    *,
    names: tuple[str, str] = ("base", "trained"),
    measure: str = "pass@k",
) -> Any:  # noqa: ANN401
    """Draw a panel for each comparison: both curves with their intervals, and their crossings.

    A significant crossing is a solid line, any other crossing a dotted line.

    Args:
        comparisons: comparisons by title.
        names: names of the two runs.
        measure: label of the curves.

    Returns:
        A matplotlib figure.
    """
    with _new_figure((3.6 * len(comparisons) + 0.4, 3.2)) as figure:
        for number, (title, comparison) in enumerate(comparisons.items(), 1):
            axes = figure.add_subplot(1, len(comparisons), number)
            _draw_comparison(axes, comparison, names)
            axes.set_title(f"{title} ({comparison.problems} problems)", fontsize=10)
            axes.set_ylabel(measure if number == 1 else "")
            axes.legend(frameon=False)
    return figure


def _draw_comparison(axes: Any, comparison: CoverageComparison, names: tuple[str, str]) -> None:  # noqa: ANN401
    for points, name, colour in zip(
        (comparison.base, comparison.trained), names, (_BASE, _TRAINED), strict=True
    ):
        _draw_curve(axes, points, name, colour)
    for crossing in comparison.crossings:
        middle = (crossing.before * crossing.after) ** 0.5
        style = "-" if crossing.significant else ":"
        axes.axvline(middle, color=_INK, linestyle=style, linewidth=1, alpha=0.6)
    axes.set_xscale("log", base=2)
    ticks = [point.k for point in comparison.base]
    axes.set_xticks(ticks, [str(k) for k in ticks])
    axes.set_xlabel("k")
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_curve(axes: Any, points: Sequence[CoveragePoint], name: str, colour: str) -> None:  # noqa: ANN401
    ks = [point.k for point in points]
    axes.plot(ks, [point.mean for point in points], color=colour, label=name, marker="o", ms=3)
    lows, highs = [point.low for point in points], [point.high for point in points]
    axes.fill_between(ks, lows, highs, color=colour, alpha=0.15, linewidth=0)

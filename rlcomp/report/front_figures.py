"""Pareto-front figures: trajectory of a run, final points of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from rlcomp.functional.front import nondominated
from rlcomp.report.figures import INK, blank, colour_of, style
from rlcomp.report.fronts import Fronts
from rlcomp.report.points import Rows, asked_for, path_of
from rlcomp.report.statistics import Array

ON_FRONT = "not dominated"


def run_figure(rows: Rows, names: Sequence[str]) -> Any:  # noqa: ANN401
    """The evaluations of one run, dark to bright; of a conditioned one also what it gave last.

    Args:
        rows: of the run's record.
        names: of the objectives; a panel for each two.

    Returns:
        A matplotlib figure; None where nothing was evaluated.
    """
    steps, path = path_of(rows, names)
    asked = asked_for(rows, names)
    if not len(path) and not asked:
        return None
    with style():
        figure = blank(*_size(names))
        for axes, places in _panels(figure, names):
            if len(path):
                _draw_path(axes, steps, path[:, places])
            if asked:
                _draw_asked(axes, asked, places)
    return figure


def sweep_figure(fronts: Fronts) -> Any:  # noqa: ANN401
    """Where all runs ended (faint), their means, and which of these no other dominates (ringed).

    Returns:
        A matplotlib figure; None where no run has finished.
    """
    if not fronts.points:
        return None
    families = list(dict.fromkeys(point.family for point in fronts.points))
    with style():
        figure = blank(*_size(fronts.names, below=0.25 * len(families)))
        for axes, places in _panels(figure, fronts.names):
            for index, family in enumerate(families):
                _draw_family(axes, fronts, family, places, colour_of(index))
            best = np.stack([point.mean[places] for point in fronts.points if point.on_front])
            _ring(axes, best)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", frameon=False)
    return figure


def _size(names: Sequence[str], below: float = 0.0) -> tuple[float, float]:
    panels = len(names) * (len(names) - 1) // 2
    rows = -(-panels // 3)
    return (4.8, 3.6 + below) if panels == 1 else (9.6, 3.2 * rows + below)


def _panels(figure: Any, names: Sequence[str]) -> Iterator[tuple[Any, list[int]]]:  # noqa: ANN401
    """The axes of every two objectives, and which these are."""
    pairs = list(combinations(range(len(names)), 2))
    across = min(len(pairs), 3)
    for place, pair in enumerate(pairs, 1):
        axes = figure.add_subplot(-(-len(pairs) // across), across, place)
        axes.set_xlabel(names[pair[0]])
        axes.set_ylabel(names[pair[1]])
        axes.grid(alpha=0.2)
        axes.spines[["top", "right"]].set_visible(False)
        yield axes, list(pair)


def _draw_path(axes: Any, steps: Array, path: Array) -> None:  # noqa: ANN401
    axes.plot(*path.T, color=INK, alpha=0.3, linewidth=0.8)
    # The brightest tenth is lost on white.
    axes.scatter(*path.T, c=steps, cmap="viridis", vmax=steps[0] + (np.ptp(steps) or 1) / 0.9, s=24)
    for place in sorted({0, len(steps) - 1}):
        _tell(axes, f"step {steps[place]:.0f}", path[place])


def _draw_asked(axes: Any, asked: dict[str, Array], places: list[int]) -> None:  # noqa: ANN401
    points = np.stack(list(asked.values()))
    axes.scatter(*points[:, places].T, color=colour_of(1), marker="D", s=24)
    _ring(axes, points[nondominated(points)][:, places])
    for label, point in asked.items():
        _tell(axes, label, point[places])


def _draw_family(
    axes: Any,  # noqa: ANN401
    fronts: Fronts,
    family: str,
    places: list[int],
    colour: str,
) -> None:
    own = [point for point in fronts.points if point.family == family]
    runs = np.vstack([point.runs[:, places] for point in own])
    means = np.stack([point.mean[places] for point in own])
    axes.scatter(*runs.T, color=colour, alpha=0.35, s=8, linewidths=0)
    axes.scatter(*means.T, color=colour, s=32, label=family)


def _ring(axes: Any, points: Array) -> None:  # noqa: ANN401
    axes.scatter(*points.T, facecolors="none", edgecolors=INK, s=90, label=ON_FRONT)


def _tell(axes: Any, text: str, point: Array) -> None:  # noqa: ANN401
    axes.annotate(text, point, xytext=(4, 4), textcoords="offset points", fontsize=8)

"""The front of one run as a picture (``front.png``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from rlcomp.functional.front import nondominated
from rlcomp.report.points import Rows, asked_for, path_of
from rlcomp.report.statistics import Array

ON_FRONT = "not dominated"
_INK, _ASKED = "#1c1e21", "#d55e00"


def run_figure(rows: Rows, names: Sequence[str]) -> Any:  # noqa: ANN401
    """Draw the evaluations of one run, dark to bright; for a conditioned policy also the last ones.

    Args:
        rows: rows of the run's record.
        names: names of the objectives; a panel for each two.

    Returns:
        A matplotlib figure; None without evaluations.
    """
    steps, path = path_of(rows, names)
    last = asked_for(rows, names)
    if not len(path) and not last:
        return None
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Names of objectives are not formulas.
    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=_size(names), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, places in _panels(figure, names):
            if len(path):
                _draw_path(axes, steps, path[:, places])
            if last:
                _draw_asked(axes, last, places)
    return figure


def _size(names: Sequence[str]) -> tuple[float, float]:
    panels = len(names) * (len(names) - 1) // 2
    return (4.8, 3.6) if panels == 1 else (9.6, 3.2 * -(-panels // 3))


def _panels(figure: Any, names: Sequence[str]) -> Iterator[tuple[Any, list[int]]]:  # noqa: ANN401
    """Yield the axes of every two objectives, and the indices of the two."""
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
    axes.plot(*path.T, color=_INK, alpha=0.3, linewidth=0.8)
    # The brightest tenth is invisible on white.
    axes.scatter(*path.T, c=steps, cmap="viridis", vmax=steps[0] + (np.ptp(steps) or 1) / 0.9, s=24)
    for place in sorted({0, len(steps) - 1}):
        _tell(axes, f"step {steps[place]:.0f}", path[place])


def _draw_asked(axes: Any, asked: dict[str, Array], places: list[int]) -> None:  # noqa: ANN401
    points = np.stack(list(asked.values()))
    axes.scatter(*points[:, places].T, color=_ASKED, marker="D", s=24)
    _ring(axes, points[nondominated(points)][:, places])
    for label, point in asked.items():
        _tell(axes, label, point[places])


def _ring(axes: Any, points: Array) -> None:  # noqa: ANN401
    axes.scatter(*points.T, facecolors="none", edgecolors=_INK, s=90, label=ON_FRONT)


def _tell(axes: Any, text: str, point: Array) -> None:  # noqa: ANN401
    axes.annotate(text, point, xytext=(4, 4), textcoords="offset points", fontsize=8)

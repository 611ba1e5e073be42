"""Charts of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rlcomp.functional.pareto_front import nondominated
from rlcomp.report.fronts import Fronts
from rlcomp.report.groups import Group
from rlcomp.report.returns import Rows, evaluation_path, returns_by_preference
from rlcomp.report.runs import Run
from rlcomp.report.statistics import Array, band, curve
from rlcomp.trackers.metric_names import better

# The palette of Okabe and Ito.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")


def colour_of(index: int) -> str:
    """Return the colour of the ``index``-th arm; the colours repeat after eight.

    Examples:
        >>> colour_of(0) == colour_of(8), colour_of(1)
        (True, '#d55e00')
    """
    return COLOURS[index % len(COLOURS)]


# A point of a line has four numbers of about six bytes; this keeps a page below 3 MB.
MOST_POINTS = 40_000
_MAX_LINE_POINTS = 400
AXES = ("steps", "tokens", "seconds")
_POSITION_KEYS = ("total", "phase", "step")


@dataclass(frozen=True)
class Metrics:
    """Metrics by their display.

    Attributes:
        chosen: metrics with a visible chart.
        others: metrics with a collapsed chart.
        constant: metrics with one value in all runs, with this value.
    """

    chosen: Sequence[str]
    others: Sequence[str]
    constant: Mapping[str, float]


def sort_metrics(groups: Sequence[Group], chosen: Sequence[str]) -> Metrics:
    """Separate metrics that changed from constant ones.

    A ``chosen`` metric has a visible chart if it changed. A wall time or an end of an interval has
    a chart only if it is ``chosen``.
    """
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys([*chosen, *(name for run in runs for row in run.rows for name in row)])
    values_of: dict[str, set[float]] = {}
    for name in names:
        if name not in _POSITION_KEYS and (name in chosen or _has_chart(name, names)):
            values_of[name] = {float(value) for run in runs for value in curve(run, name)[1]}
    changed = [name for name, values in values_of.items() if len(values) > 1]
    return Metrics(
        [name for name in changed if name in chosen],
        [name for name in changed if name not in chosen],
        {name: values.pop() for name, values in values_of.items() if len(values) == 1},
    )


def _has_chart(name: str, names: Iterable[str]) -> bool:
    """Return False for a wall time and for an end of another metric's interval."""
    stem = name.removesuffix("_low").removesuffix("_high")
    return not name.startswith("time/") and (stem == name or stem not in names)


def charts(groups: Sequence[Group], metrics: Metrics) -> list[dict[str, Any]]:
    """Return the visible charts, then the others; each with its lines.

    A line has ``group`` (an index), ``kind``, ``seed``, ``x`` (a list for each of :data:`AXES`) and
    ``y``. The ``kind`` is ``mean`` (of all finished runs), ``seed`` (one of several finished runs)
    or ``open`` (a run that is not finished). A mean of several runs also has ``low`` and ``high``.
    Lines are thinned; if a page cannot hold all lines even so, only the means stay.
    """
    clocks = {run.directory: _clock(run) for group in groups for run in group.runs}
    shown_metrics = (*metrics.chosen, *metrics.others)
    lines_of = [(metric, [*_lines(groups, metric, clocks)]) for metric in shown_metrics]
    total = sum(len(lines) for _, lines in lines_of)
    points = max(2, min(_MAX_LINE_POINTS, MOST_POINTS // max(total, 1)))
    with_seeds = total * points <= MOST_POINTS
    return [
        {
            "metric": metric,
            "better": better(metric),
            "chosen": metric in metrics.chosen,
            "lines": [
                _thin_line(line, points) for line in lines if with_seeds or line["kind"] == "mean"
            ],
        }
        for metric, lines in lines_of
    ]


def _lines(
    groups: Sequence[Group], metric: str, clocks: Mapping[Path, Array]
) -> Iterator[dict[str, Any]]:
    for index, group in enumerate(groups):
        has_several = len(group.finished) > 1
        averages = band(group.finished, metric) if has_several else None
        if averages is not None:
            steps, mean, low, high = averages
            x = np.mean([_read_clock(clocks[run.directory], steps) for run in group.finished], 0)
            line = {"group": index, "kind": "mean", "seed": None}
            yield {**line, "x": x, "y": mean, "low": low, "high": high}
        for run in group.runs:
            steps, values = curve(run, metric)
            if len(steps) and run.state != "repeated":
                finished_kind = "seed" if has_several else "mean"
                kind = finished_kind if run.state == "finished" else "open"
                line = {"group": index, "kind": kind, "seed": run.seed}
                yield {**line, "x": _read_clock(clocks[run.directory], steps), "y": values}


def _clock(run: Run) -> Array:
    """Return steps, sampled tokens and seconds of the stages, after every row, shape ``[3, N]``."""
    columns = [
        [row.get(name) or 0.0 for row in run.rows] for name in ("rollout/tokens", "time/step")
    ]
    return np.stack([np.asarray([row["total"] for row in run.rows]), *map(np.cumsum, columns)])


def _read_clock(clock: Array, steps: Array) -> Array:
    """Read a clock after some steps, shape ``[3, M]``."""
    return np.stack([steps, *(np.interp(steps, clock[0], column) for column in clock[1:])])


def _thin_line(line: dict[str, Any], points: int) -> dict[str, Any]:
    """Thin a line to at most ``points`` means over pieces; keep its last point."""
    count = len(line["y"])
    pieces = np.array_split(np.arange(count - 1), min(count - 1, points - 1)) if count > 1 else []
    pieces = [*pieces, np.asarray([count - 1])]

    def column(values: Array) -> list[float]:
        return [_round(values[piece].mean()) for piece in pieces]

    columns: dict[str, Any] = {n: column(line[n]) for n in ("y", "low", "high") if n in line}
    return {**line, "x": [column(axis) for axis in line["x"]], **columns}


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def axes_of(drawn: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the axes on which a line has a value other than 0; always includes steps."""
    lines = [line for chart in drawn for line in chart["lines"]]
    return [
        name
        for index, name in enumerate(AXES)
        if not index or any(any(line["x"][index]) for line in lines)
    ]


def run_front(rows: Rows, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the evaluations of one run; for a conditioned policy also its last returns.

    Args:
        rows: rows of the run's record.
        names: names of the objectives; there is a panel for each two.

    Returns:
        Panels with ``x`` and ``y`` (names of objectives) and ``points``; none without evaluations.
        A point has ``at`` (its two returns), ``kind`` (``path`` or ``preference``), ``family`` (the
        index of its colour), ``label`` and ``ring`` (True if no other preference dominates it).
    """
    steps, path = evaluation_path(rows, names)
    last = returns_by_preference(rows, names)
    on_front = nondominated(np.stack(list(last.values()))) if last else np.zeros(0, dtype=bool)
    points = [
        ("path", 0, f"step {step:.0f}", point, False)
        for step, point in zip(steps, path, strict=True)
    ]
    pairs = zip(last.items(), on_front, strict=True)
    points += [("preference", 1, label, point, bool(ring)) for (label, point), ring in pairs]
    return _panels(names, points)


def sweep_front(fronts: Fronts) -> list[dict[str, Any]]:
    """Return the final returns of all runs (kind ``run``) and their means (kind ``mean``).

    Returns:
        Panels, as :func:`run_front`; a ring marks a mean that no other mean dominates.
    """
    families = families_of(fronts)
    points = []
    for point in fronts.points:
        index, label = families.index(point.family), f"{point.family} {point.label}".strip()
        points += [("run", index, label, returns, False) for returns in point.runs]
        points.append(("mean", index, label, point.mean, point.on_front))
    return _panels(fronts.names, points)


def families_of(fronts: Fronts) -> list[str]:
    """Return the families of a sweep's fronts, in order."""
    return list(dict.fromkeys(point.family for point in fronts.points))


def _panels(
    names: Sequence[str], points: Sequence[tuple[str, int, str, Array, bool]]
) -> list[dict[str, Any]]:
    """Return a panel for each pair of objectives.

    A point is kind, index of the family, label, returns ``[K]`` and whether it has a ring.
    """
    return [
        {
            "x": names[a],
            "y": names[b],
            "points": [
                {
                    "kind": kind,
                    "family": family,
                    "label": label,
                    "ring": ring,
                    "at": [_round(returns[a]), _round(returns[b])],
                }
                for kind, family, label, returns, ring in points
            ],
        }
        for a, b in combinations(range(len(names)), 2)
        if points
    ]

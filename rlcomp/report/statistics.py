"""Statistics over seeds: final values, areas under curves, t intervals, paired differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rlcomp.errors import require
from rlcomp.report.runs import Run

Array = npt.NDArray[np.float64]
LEVEL = 0.95
# Longer curves are drawn as means over this many pieces.
_MOST_POINTS = 400


@dataclass(frozen=True)
class Estimate:
    """Mean over ``n`` seeds; without an interval if there are fewer than two."""

    mean: float
    low: float | None
    high: float | None
    n: int

    def text(self, places: int = 2, sign: str = "") -> str:
        """Write the mean with its interval, if there is one.

        Args:
            places: digits after the point.
            sign: ``"+"`` for differences, which always show it.

        Examples:
            >>> Estimate(0.123, -0.1, 0.35, 5).text(), Estimate(0.123, None, None, 1).text(1, "+")
            ('0.12 (-0.10 to 0.35)', '+0.1')
        """
        mean, *ends = (
            f"{each:{sign}.{places}f}"
            for each in (self.mean, self.low, self.high)
            if each is not None
        )
        return f"{mean} ({' to '.join(ends)})" if ends else mean


def curve(run: Run, metric: str) -> tuple[Array, Array]:
    """Return the steps at which a metric has a finite record, and its values."""
    points = [(row["total"], row[metric]) for row in run.rows if _finite(row.get(metric))]
    steps, values = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
    return steps, values


def final(run: Run, metric: str) -> float | None:
    """Return the last value of a metric; None without one, or if it is not finite."""
    last = next((row[metric] for row in reversed(run.rows) if metric in row), None)
    return last if _finite(last) else None


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def area(run: Run, metric: str) -> float | None:
    """Return the area under a run's curve; None for a run without a final value."""
    return None if final(run, metric) is None else area_under(*curve(run, metric))


def area_under(steps: Array, values: Array) -> float:
    """Compute the area under a curve by the trapezoidal rule over its span: a mean.

    The result is in the metric's own unit.

    Args:
        steps: increasing, shape ``[N]``.
        values: values at these steps, shape ``[N]``.

    Examples:
        >>> area_under(np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 1.0]))
        0.875
    """
    span = steps[-1] - steps[0]
    return float(np.trapezoid(values, steps) / span) if span > 0 else float(values[-1])


def estimate(values: Sequence[float]) -> Estimate | None:
    """Compute mean and Student's t interval; None without values."""
    if not len(values):
        return None
    low, high = (None, None) if len(values) < 2 else interval(np.asarray(values))
    return Estimate(float(np.mean(values)), low, high, len(values))


def interval(values: Array) -> tuple[float, float]:
    """Compute Student's t interval of the mean at 95 %: ``mean ± t(n - 1) s / sqrt(n)``.

    ``s`` is the standard deviation with ``n - 1`` in the denominator. The interval covers the mean
    of normal values in 95 % of cases at any ``n``. With two values it is 9 of their standard
    deviations wide to each side. It may exceed the metric's own range, for example for a rate near
    1.

    Args:
        values: shape ``[n]``, at least two.

    Returns:
        Lower and upper end.

    Source: Student, "The probable error of a mean" (1908).

    Examples:
        >>> interval(np.array([0.0, 1.0, 2.0]))  # t(2) = 4.303, s = 1
        (-1.484..., 3.484...)
    """
    quantile = require("scipy.stats", "report").t.ppf((1 + LEVEL) / 2, len(values) - 1)
    half = float(quantile * values.std(ddof=1) / math.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half


def paired(values: Mapping[str, float], baseline: Mapping[str, float]) -> Estimate | None:
    """Compute the mean difference to a baseline over the common seeds.

    Args:
        values: values by seed.
        baseline: values by seed.
    """
    return estimate([values[seed] - baseline[seed] for seed in values if seed in baseline])


def band(runs: Sequence[Run], metric: str) -> tuple[Array, Array, Array, Array] | None:
    """Return steps, mean, least and largest over runs, at the steps that all of them recorded.

    Returns:
        Four arrays of shape ``[N]``; None if the runs share no step.
    """
    curves = [dict(zip(*curve(run, metric), strict=True)) for run in runs]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    if not steps:
        return None
    values = np.asarray([[one[step] for step in steps] for one in curves])
    pieces = np.array_split(np.arange(len(steps)), min(len(steps), _MOST_POINTS))
    places = np.asarray([np.mean(np.asarray(steps)[piece]) for piece in pieces])
    values = np.stack([values[:, piece].mean(1) for piece in pieces], 1)
    return places, values.mean(0), values.min(0), values.max(0)

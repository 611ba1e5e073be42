"""Numbers over seeds: final values, areas under curves, bootstrap intervals, paired differences."""

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
# Longer curves are drawn as means over so many pieces.
_MOST_POINTS = 400


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` seeds; without an interval below two."""

    mean: float
    low: float | None
    high: float | None
    n: int


def curve(run: Run, metric: str) -> tuple[Array, Array]:
    """Steps (over the run) at which a metric was recorded as a finite number, and its values."""
    points = [(row["total"], row[metric]) for row in run.rows if _finite(row.get(metric))]
    steps, values = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
    return steps, values


def final(run: Run, metric: str) -> float | None:
    """The last value of a metric; None where it was never recorded, or not finite in the end."""
    last = next((row[metric] for row in reversed(run.rows) if metric in row), None)
    return last if _finite(last) else None


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def area(run: Run, metric: str) -> float | None:
    """Area under a run's curve; None for a run without a final value."""
    return None if final(run, metric) is None else area_under(*curve(run, metric))


def area_under(steps: Array, values: Array) -> float:
    """Area under a curve by the trapezoidal rule, over its span: a mean in the metric's own unit.

    Args:
        steps: increasing, shape ``[N]``.
        values: at those steps, shape ``[N]``.

    Examples:
        >>> area_under(np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 1.0]))
        0.875
    """
    span = steps[-1] - steps[0]
    return float(np.trapezoid(values, steps) / span) if span > 0 else float(values[-1])


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and percentile-bootstrap interval; None of nothing."""
    if not len(values):
        return None
    low, high = (None, None) if len(values) < 2 else map(float, interval(np.asarray(values)))
    return Estimate(float(np.mean(values)), low, high, len(values))


def interval(values: Array, resamples: int = 10_000) -> tuple[Array, Array]:
    """Percentile-bootstrap interval of the mean over the first axis, at 95 %.

    Few seeds make it too narrow. With two or three its ends are the least and the largest value.
    It misses the mean where all values lie on the same side: of a symmetric law it covers the mean
    in 1 - 2/4 = 50 and 1 - 2/8 = 75 % of cases. With 5 and 10 normal values (simulated) that is 83
    and 90 %.

    Args:
        values: shape ``[n, ...]``, at least two.
        resamples: how many means are drawn; the draws are always the same.

    Returns:
        Lower and upper end, each of shape ``[...]``.

    Source: Efron, "Bootstrap methods: another look at the jackknife" (1979).
    """
    drawn = require("scipy.stats", "report").bootstrap(
        (values,),
        np.mean,
        axis=0,
        n_resamples=resamples,
        batch=1_000,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return drawn.confidence_interval.low, drawn.confidence_interval.high


def paired(values: Mapping[str, float], baseline: Mapping[str, float]) -> Estimate | None:
    """Mean difference to a baseline over the seeds both have.

    Args:
        values: by seed.
        baseline: by seed.
    """
    return estimate([values[seed] - baseline[seed] for seed in values if seed in baseline])


def band(runs: Sequence[Run], metric: str) -> tuple[Array, Array, Array, Array] | None:
    """Steps, mean, lower and upper end over runs, at the steps that all of them recorded.

    Returns:
        Four arrays of shape ``[N]`` (the ends are the mean where there is one run); None where the
        runs share no step.
    """
    curves = [dict(zip(*curve(run, metric), strict=True)) for run in runs]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    if not steps:
        return None
    values = np.asarray([[one[step] for step in steps] for one in curves])
    pieces = np.array_split(np.arange(len(steps)), min(len(steps), _MOST_POINTS))
    places = np.asarray([np.mean(np.asarray(steps)[piece]) for piece in pieces])
    values = np.stack([values[:, piece].mean(1) for piece in pieces], 1)
    low, high = (values[0], values[0]) if len(runs) < 2 else interval(values, resamples=1_000)
    return places, values.mean(0), low, high

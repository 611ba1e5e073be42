"""Statistics of runs, and the format of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rlcomp.errors import require
from rlcomp.report.runs import Run

Array = npt.NDArray[np.float64]
LEVEL = 0.95  # confidence level of the intervals
_MAX_POINTS = 400  # of a band; the values of more steps are averaged over pieces


@dataclass(frozen=True)
class MeanEstimate:
    """Mean over ``n`` seeds or problems, with its interval; one seed alone has no interval."""

    mean: float
    low: float | None
    high: float | None
    n: int

    def text(self, places: int = 2, sign: str = "") -> str:
        """Return the mean with its interval, if there is one, to some decimal places.

        Examples:
            >>> MeanEstimate(0.123, -0.1, 0.35, 5).text()
            '0.12 (-0.10 to 0.35)'
            >>> MeanEstimate(0.123, None, None, 1).text(1, "+")
            '+0.1'
        """
        mean, *ends = (
            f"{value:{sign}.{places}f}"
            for value in (self.mean, self.low, self.high)
            if value is not None
        )
        return f"{mean} ({' to '.join(ends)})" if ends else mean


def curve(run: Run, metric: str) -> tuple[Array, Array]:
    """Return the steps at which a metric is finite, and its values, ``[N]`` each."""
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
    """Compute the area under a curve by the trapezoidal rule, divided by its span: a mean.

    Args:
        steps: increasing, shape ``[N]``.
        values: values at these steps, shape ``[N]``.

    Examples:
        >>> area_under(np.array([0.0, 1.0, 4.0]), np.array([0.0, 1.0, 1.0]))
        0.875
    """
    span = steps[-1] - steps[0]
    return float(np.trapezoid(values, steps) / span) if span > 0 else float(values[-1])


def estimate(values: Sequence[float]) -> MeanEstimate | None:
    """Compute mean and Student's t interval; None without values."""
    if not len(values):
        return None
    low, high = (None, None) if len(values) < 2 else interval(np.asarray(values))
    return MeanEstimate(float(np.mean(values)), low, high, len(values))


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


def paired(values: Mapping[str, float], baseline: Mapping[str, float]) -> MeanEstimate | None:
    """Compute the mean difference to a baseline over the common seeds; both are by seed."""
    return estimate([values[seed] - baseline[seed] for seed in values if seed in baseline])


def band(runs: Sequence[Run], metric: str) -> tuple[Array, Array, Array, Array] | None:
    """Return steps, mean, minimum and maximum over runs, at the steps that all runs recorded.

    Each run's values at more than 400 steps are first averaged over 400 pieces.

    Returns:
        Four arrays of shape ``[N]``, N at most 400; None if the runs share no step.
    """
    curves = [dict(zip(*curve(run, metric), strict=True)) for run in runs]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    if not steps:
        return None
    values = np.asarray([[by_step[step] for step in steps] for by_step in curves])
    pieces = np.array_split(np.arange(len(steps)), min(len(steps), _MAX_POINTS))
    centres = np.asarray([np.mean(np.asarray(steps)[piece]) for piece in pieces])
    values = np.stack([values[:, piece].mean(1) for piece in pieces], 1)
    return centres, values.mean(0), values.min(0), values.max(0)


def format_number(value: float | None) -> str:
    """Format a number without an interval.

    Examples:
        >>> format_number(0.03), format_number(-12345.6), format_number(None)
        ('0.03', '−12,346', '')
    """
    if value is None:
        return ""
    return _minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")


def round_to_interval(value: float, half: float, *, sign: bool = False) -> str:
    """Round a number to the digits that an interval of ``value ± half`` supports.

    The last digit is worth between a twentieth and a half of the half width. An interval of no
    width does not limit the digits. With ``sign`` a plus is written, too.

    Examples:
        >>> round_to_interval(0.00213, 0.006), round_to_interval(51234.0, 300.0)
        ('0.002', '51,200')
        >>> round_to_interval(0.00213, 0.0163, sign=True)
        '+0.002'
    """
    plus = "+" if sign else ""
    if not half > 1e-12 * abs(value):  # a smaller width is an error of rounding in float64
        return ("+" if sign and value > 0 else "") + format_number(value)
    places = -math.floor(math.log10(half / 2))
    if places > 6:
        digits = max(0, math.floor(math.log10(abs(value))) + places) if value else 0
        return _minus(f"{value:{plus}.{digits}e}")
    rounded_value = round(value, places) + 0.0  # no minus before a zero
    return _minus(f"{rounded_value:{plus},.{max(places, 0)}f}")


def half_width(value: MeanEstimate) -> float:
    """Return half the width of the interval of an estimate; 0 without one."""
    return 0.0 if value.low is None or value.high is None else (value.high - value.low) / 2


def format_estimate(value: MeanEstimate | None, *, sign: bool = False) -> str:
    """Return mean and interval as ``mean ± half width``.

    Examples:
        >>> format_estimate(MeanEstimate(0.512, 0.25, 0.774, 3))
        '0.5 ± 0.3'
    """
    if value is None:
        return ""
    half = half_width(value)
    mean = round_to_interval(value.mean, half, sign=sign)
    return f"{mean} ± {round_to_interval(half, half)}" if value.low is not None else mean


def _minus(text: str) -> str:
    return text.replace("-", "−")

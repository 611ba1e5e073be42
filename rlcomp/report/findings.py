"""Sentences on the arms of a sweep: paired difference, interval, judgement.

An arm is a group of runs; the control arm is the baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlcomp.report.groups import Group
from rlcomp.report.statistics import MeanEstimate, format_number, half_width, round_to_interval
from rlcomp.report.tables import MetricResult
from rlcomp.trackers.metric_names import Direction, better

Judgement = Literal["better", "worse", "higher", "lower", "no difference", "unknown"]
HYPERVOLUME = "evaluation/hypervolume"


@dataclass(frozen=True)
class ArmVerdict:
    """Comparison of one arm with the control arm: the sentence, and its judgement."""

    sentence: str
    judgement: Judgement


def headline_metric(results: Sequence[MetricResult]) -> str | None:
    """Return the metric to compare: the hypervolume of several objectives, else the first metric.

    Metrics are in the order of :data:`rlcomp.report.tables.METRICS`, or of the request.
    """
    measured = list(dict.fromkeys(row.metric for row in results))
    return HYPERVOLUME if HYPERVOLUME in measured else next(iter(measured), None)


def judge_difference(difference: MeanEstimate | None, direction: Direction) -> Judgement:
    """Judge the 95 % interval of a paired difference.

    "No difference" if the interval holds 0, "unknown" without an interval. For a metric without a
    better direction the arm is higher or lower.

    Examples:
        >>> judge_difference(MeanEstimate(-0.5, -0.75, -0.25, 3), "lower")
        'better'
    """
    if difference is None or difference.low is None or difference.high is None:
        return "unknown"
    if difference.low <= 0 <= difference.high:
        return "no difference"
    side: Literal["higher", "lower"] = "higher" if difference.low > 0 else "lower"
    if not direction:
        return side
    return "better" if side == direction else "worse"


def write_verdict_sentences(
    groups: Sequence[Group], results: Sequence[MetricResult], baseline: Group, metric: str
) -> list[ArmVerdict]:
    """Write a sentence on every group but the control arm; a single group gets its final value.

    Args:
        groups: all groups.
        results: from :func:`rlcomp.report.tables.results`.
        baseline: the control arm.
        metric: metric whose final values are compared.
    """
    row_of = {row.group: row for row in results if (row.metric, row.kind) == (metric, "final")}
    names = short_names([group.name for group in groups])
    if len(groups) == 1:
        values = [row.value for row in row_of.values()]
        texts = [f"{names[0]}: {metric} = {_interval(value)}{_seeds(value)}" for value in values]
        return [ArmVerdict(text, "unknown") for text in texts]
    control = names[list(groups).index(baseline)]
    return [
        _compare_with_control(name, control, row_of.get(group.name), better(metric))
        if baseline.name in row_of
        else ArmVerdict(
            f"{name} − {control}: no finished run of {control} has the metric", "unknown"
        )
        for name, group in zip(names, groups, strict=True)
        if group is not baseline
    ]


def _compare_with_control(
    name: str, control: str, row: MetricResult | None, direction: Direction
) -> ArmVerdict:
    pair = f"{name} − {control}"
    if row is None:
        return ArmVerdict(f"{pair}: no finished run of {name} has the metric", "unknown")
    if row.difference is None:
        return ArmVerdict(f"{pair}: no seed in common", "unknown")
    judgement = judge_difference(row.difference, direction)
    conclusion = f": {name} is {judgement}"
    if judgement in ("no difference", "unknown"):
        conclusion = ": no difference seen" if judgement == "no difference" else ""
    text = f"{pair} = {_interval(row.difference, sign=True)}{_seeds(row.difference)}{conclusion}"
    return ArmVerdict(text, judgement)


def _interval(value: MeanEstimate, *, sign: bool = False) -> str:
    half = half_width(value)
    text = round_to_interval(value.mean, half, sign=sign)
    if value.low is None or value.high is None:
        return text
    low, high = (round_to_interval(end, half) for end in (value.low, value.high))
    return f"{text}, 95 % {low} to {high}"


def _seeds(value: MeanEstimate) -> str:
    return f", n = {format_number(value.n)}" if value.n > 1 else ", n = 1 (one seed: no interval)"


def short_names(names: Sequence[str]) -> list[str]:
    """Return the values of names ``key=value`` with one common key; else the names.

    Examples:
        >>> short_names(["advantage=pama", "advantage=group_mean"])
        ['pama', 'group_mean']
    """
    pairs = [name.split("=") for name in names]
    same = all(len(pair) == 2 and pair[0] == pairs[0][0] for pair in pairs)
    return [pair[1] for pair in pairs] if same and len(names) > 1 else list(names)

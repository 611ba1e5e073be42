"""A report on a pairwise judge: agreement, and biases of position, length and self-preference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from rlcomp.errors import DataError
from rlcomp.functional.logistic import logistic
from rlcomp.functional.pass_at_k import wilson_interval
from rlcomp.interfaces.pairwise_judge import PairwiseJudge, Shown

# Pairs from which on a bias is found in nine of ten cases, by what it adds to the probability at a
# tie (experiments/judge_bias): position, length, self-preference.
NEEDED = {
    0.10: {"position": 200, "length": 200, "self_preference": 400},
    0.05: {"position": 800, "length": 800, "self_preference": 1600},
}


class Labelled(NamedTuple):
    """A pair whose qualities are known.

    Attributes:
        shown: prompt and both answers.
        gap: quality of the first answer minus that of the second.
        own: 1 if only the first one is the judge's own, -1 if only the second one is, else 0.
    """

    shown: Shown
    gap: float
    own: int = 0


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class JudgeReport:
    """What is known of a judge after a number of pairs, each asked in both orders.

    Attributes:
        pairs: that got a verdict in both orders.
        invalid: share of the pairs that lack one.
        agreement: share of pairs whose better answer has the higher mean probability.
        order_flips: share of pairs whose verdict changes with the order.
        biases: log-odds at equal quality, of the first place (``position``), of one standard
            deviation of the difference in characters (``length``), of the judge's own answer
            (``self_preference``).
        unseen: what so few pairs could not have shown.
    """

    pairs: int
    invalid: float
    agreement: Interval
    order_flips: float
    biases: dict[str, Interval]
    unseen: tuple[str, ...]


def judge_report(judge: PairwiseJudge, pairs: Sequence[Labelled]) -> JudgeReport:
    """Ask a judge about pairs of known quality in both orders, and tell its biases.

    ``P(first wins) = s(b_0 + b_q gap + b_l dlen + b_o own)`` over both orders of all pairs, with
    errors by pair. Quality is in it because better answers are often longer: the share of verdicts
    for the longer answer is no sign of a bias, and is not told.

    Args:
        judge: what is asked.
        pairs: with known gaps; a column that is 0 in all of them (``own``) is left out.

    Raises:
        DataError: no pair got a verdict in both orders, or these verdicts are certain by quality
            alone.
    """
    there = judge([pair.shown for pair in pairs])
    back = judge([p.shown._replace(first=p.shown.second, second=p.shown.first) for p in pairs])
    both = [
        (pair, first, second)
        for pair, first, second in zip(pairs, there, back, strict=True)
        if first is not None and second is not None
    ]
    if not both:
        raise DataError(
            f"judge_report: of {len(pairs)} pairs none got a verdict in both orders: see what the "
            "judge says to one of them"
        )
    clear = [((p + 1 - q) / 2 - 0.5) * pair.gap for pair, p, q in both if pair.gap]
    return JudgeReport(
        pairs=len(both),
        invalid=1 - len(both) / len(pairs),
        agreement=_share(sum(value > 0 for value in clear), len(clear)),
        order_flips=sum((p > 0.5) == (q > 0.5) for _, p, q in both) / len(both),
        biases=_biases(both),
        unseen=tuple(
            f"a bias of {name} that adds {shift:.2f} at a tie (needs {needed} pairs)"
            for shift, least in NEEDED.items()
            for name, needed in least.items()
            if len(both) < needed
        ),
    )


def drift(before: Sequence[bool], after: Sequence[bool]) -> Interval:
    """Change of the agreement between two rounds on the same pairs, paired.

    Args:
        before: of each pair, whether the judge was right in the first round.
        after: the same in the later one.

    Raises:
        DataError: they are not the same pairs, or fewer than two.

    Examples:
        >>> drift([True, True, False, True], [True, False, False, False]).value
        -0.5
    """
    if len(before) != len(after) or len(before) < 2:
        raise DataError(
            f"drift: {len(before)} pairs and {len(after)}: must be the same pairs, at least two"
        )
    change = torch.tensor(after, dtype=torch.float64) - torch.tensor(before, dtype=torch.float64)
    middle, half = float(change.mean()), 1.96 * float(change.std()) / math.sqrt(len(change))
    return Interval(middle, middle - half, middle + half)


def _biases(both: Sequence[tuple[Labelled, float, float]]) -> dict[str, Interval]:
    lengths = torch.tensor([len(p.shown.first) - len(p.shown.second) for p, _, _ in both]).double()
    spread = float(lengths.square().mean().sqrt()) or 1.0
    columns = {
        "quality": torch.tensor([pair.gap for pair, _, _ in both], dtype=torch.float64),
        "length": lengths / spread,
        "self_preference": torch.tensor([pair.own for pair, _, _ in both], dtype=torch.float64),
    }
    used = {name: column for name, column in columns.items() if bool(column.any())}
    one_order = torch.stack([*used.values()], dim=1) if used else torch.zeros(len(both), 0)
    rows = torch.cat([one_order, -one_order])
    outcome = torch.tensor([p for _, p, _ in both] + [q for _, _, q in both], dtype=torch.float64)
    cluster = torch.arange(len(both)).repeat(2)
    fit = logistic(torch.cat([torch.ones(len(rows), 1), rows], dim=1), outcome, cluster)
    found = zip(["position", *used], *(each.tolist() for each in fit), strict=True)
    return {
        name: Interval(b, b - 1.96 * error, b + 1.96 * error)
        for name, b, error in found
        if name != "quality"
    }


def _share(right: int, count: int) -> Interval:
    """A share with its Wilson interval; NaN of nothing."""
    if not count:
        return Interval(math.nan, math.nan, math.nan)
    return Interval(right / count, *wilson_interval(right, count, 0.95))

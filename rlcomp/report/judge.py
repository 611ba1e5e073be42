"""Reports on pairwise judges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from rich import box
from rich.table import Table
from torch import Tensor

from rlcomp.data.pairs import pair_margins, tied_pairs
from rlcomp.errors import DataError
from rlcomp.functional.pass_at_k import wilson_interval
from rlcomp.functional.statistics import logistic_regression
from rlcomp.interfaces.judge import AnswerPair, PairwiseJudge
from rlcomp.interfaces.task import Example

# The number of pairs that detects a bias in nine of ten cases, by the bias and by how much it adds
# to the probability of an answer at a tie (measured in experiments/judge_bias).
NEEDED = {
    0.10: {"position": 200, "length": 200, "self_preference": 400},
    0.05: {"position": 800, "length": 800, "self_preference": 1600},
}

# Value of a column that marks the answer of the judge's own model.
_OWN = {"chosen": 1, "rejected": -1}


class LabelledPair(NamedTuple):
    """Pair with known qualities.

    Attributes:
        pair: prompt and both answers.
        gap: quality of the first answer minus the second's.
        own: 1 if only the first answer is the judge's own, -1 if only the second is, else 0.
    """

    pair: AnswerPair
    gap: float
    own: int = 0


class IntervalEstimate(NamedTuple):
    """Estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def labelled_pair(example: Example) -> LabelledPair:
    """Return the pair of an example whose demonstration is better than its column ``rejected``.

    The column ``rejected`` is a text or a list of messages. The column ``margin`` holds the
    difference in quality (1 without one; 0 for a ``tie``); ``own`` is the answer of the judge's own
    model, ``chosen`` or ``rejected``.

    Raises:
        DataError: there is no rejected answer, or ``own`` is neither of the two.

    Examples:
        >>> labelled_pair(Example("p", "a", "a", columns={"rejected": "b", "own": "rejected"}))[1:]
        (1.0, -1)
    """
    columns = example.columns
    rejected, own = columns.get("rejected"), columns.get("own")
    if isinstance(rejected, list):
        rejected = "".join(str(message.get("content") or "") for message in rejected)
    if not isinstance(rejected, str):
        raise DataError(
            f"the example {example.prompt[:60]!r} has no column 'rejected': take a task of pairs, "
            "task=preferences task.path=FILE or task=sorting_pairs"
        )
    if own not in (None, *_OWN):
        raise DataError(
            f"the example {example.prompt[:60]!r} has 'own' {own!r:.60}: must be 'chosen' or "
            "'rejected', the answer that the judge's model wrote"
        )
    margin = pair_margins([example])
    gap = 1.0 if margin is None else float(margin)
    if tied_pairs([example]) is not None:
        gap = 0.0
    pair = AnswerPair(example.prompt, example.demonstration, rejected, example.answer)
    return LabelledPair(pair, gap, _OWN.get(str(own), 0))


@dataclass(frozen=True)
class JudgeReport:
    """Measurements of a judge on a number of pairs, each judged in both orders.

    Attributes:
        pairs: number of pairs with a verdict in both orders.
        invalid: share of the pairs without a verdict in both orders.
        agreement: share of verdicts for the better answer, among pairs with a better answer; a pair
            whose two orders disagree counts one half, and so does a verdict of exactly 1/2. NaN
            without pairs that have a better answer.
        label_agreement: share of pairs whose better answer has the higher mean probability of both
            orders, the label of ``pairing=judged``; equal means count one half. NaN as above.
        order_flips: share of pairs whose verdict changes with the order. A probability of exactly
            1/2 counts as a verdict for the second place.
        biases: log-odds at equal quality, of the first place (``position``), of the root mean
            square of the difference in characters (``length``), of the judge's own answer
            (``self_preference``). Empty if the fit failed.
        unseen: biases that these pairs cannot show, with the reason.
    """

    pairs: int
    invalid: float
    agreement: IntervalEstimate
    label_agreement: IntervalEstimate
    order_flips: float
    biases: dict[str, IntervalEstimate]
    unseen: tuple[str, ...]


def judge_report(judge: PairwiseJudge, pairs: Sequence[LabelledPair]) -> JudgeReport:
    """Ask a judge about pairs of known quality in both orders, and measure its biases.

    ``P(first wins) = s(b_0 + b_q gap + b_l dlen + b_o own)`` over both orders of all pairs, with
    errors by pair; ``s`` is the logistic function, ``dlen`` the difference in characters over its
    root mean square. Quality is a term because better answers are often longer: the share of
    verdicts for the longer answer is no sign of a bias, and is not reported.

    Args:
        judge: the judge to measure.
        pairs: pairs with known gaps; a column that is 0 in all of them (``own``) is left out.

    Raises:
        DataError: no pair has a verdict in both orders.
    """
    forward = judge([labelled.pair for labelled in pairs])
    reverse = judge([p.pair._replace(first=p.pair.second, second=p.pair.first) for p in pairs])
    judged_pairs = [
        (pair, first, second)
        for pair, first, second in zip(pairs, forward, reverse, strict=True)
        if first is not None and second is not None
    ]
    if not judged_pairs:
        raise DataError(
            f"judge_report: none of {len(pairs)} pairs got a verdict in both orders: look at the "
            "judge's answer to one of them"
        )
    graded = [(pair.gap, p, 1 - q) for pair, p, q in judged_pairs if pair.gap]
    verdicts = [(_correctness(gap, p) + _correctness(gap, q)) / 2 for gap, p, q in graded]
    labels = [_correctness(gap, (p + q) / 2) for gap, p, q in graded]
    biases, no_fit = _biases(judged_pairs)
    return JudgeReport(
        pairs=len(judged_pairs),
        invalid=1 - len(judged_pairs) / len(pairs),
        agreement=_share(verdicts),
        label_agreement=_share(labels),
        order_flips=sum((p > 0.5) == (q > 0.5) for _, p, q in judged_pairs) / len(judged_pairs),
        biases=biases,
        unseen=no_fit
        + tuple(
            f"a bias of {name} that adds {shift:.2f} at a tie (needs {needed} pairs)"
            for shift, pairs_needed_by_bias in NEEDED.items()
            for name, needed in pairs_needed_by_bias.items()
            if len(judged_pairs) < needed
        ),
    )


def drift(before: Sequence[float], after: Sequence[float]) -> IntervalEstimate:
    """Compute the paired change of the agreement between two rounds on the same pairs.

    A value is 1 if the judge was right about a pair, else 0; 1/2 if its orders disagree.

    Raises:
        DataError: the pairs are not the same pairs, or fewer than two.

    Examples:
        >>> drift([True, True, False, True], [True, False, False, False]).value
        -0.5
    """
    if len(before) != len(after) or len(before) < 2:
        raise DataError(
            f"drift: {len(before)} pairs and {len(after)}: must be the same pairs, at least two"
        )
    change = torch.tensor(after, dtype=torch.float64) - torch.tensor(before, dtype=torch.float64)
    mean, half_width = float(change.mean()), 1.96 * float(change.std()) / math.sqrt(len(change))
    return IntervalEstimate(mean, mean - half_width, mean + half_width)


def _biases(
    judged_pairs: Sequence[tuple[LabelledPair, float, float]],
) -> tuple[dict[str, IntervalEstimate], tuple[str, ...]]:
    """Return the biases; if the fit fails, no biases and the reason for ``unseen``."""
    pairs = [pair for pair, _, _ in judged_pairs]
    lengths = _column([len(p.pair.first) - len(p.pair.second) for p in pairs])
    spread = float(lengths.square().mean().sqrt()) or 1.0
    columns = {
        "quality": _column([pair.gap for pair in pairs]),
        "length": lengths / spread,
        "self_preference": _column([pair.own for pair in pairs]),
    }
    nonzero_columns = {name: column for name, column in columns.items() if bool(column.any())}
    forward_rows = torch.zeros(len(pairs), 0)
    if nonzero_columns:
        forward_rows = torch.stack([*nonzero_columns.values()], dim=1)
    rows = torch.cat([forward_rows, -forward_rows])
    outcome = _column([p for _, p, _ in judged_pairs] + [q for _, _, q in judged_pairs])
    cluster = torch.arange(len(judged_pairs)).repeat(2)
    try:
        fit = logistic_regression(
            torch.cat([torch.ones(len(rows), 1), rows], dim=1), outcome, cluster
        )
    except DataError as error:
        return {}, (f"any bias ({error})",)
    coefficients = zip(
        ["position", *nonzero_columns], *(each.tolist() for each in fit), strict=True
    )
    return {
        name: IntervalEstimate(b, b - 1.96 * error, b + 1.96 * error)
        for name, b, error in coefficients
        if name != "quality"
    }, ()


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _correctness(gap: float, probability: float) -> float:
    """Compare the likelier answer with the better one: 1 or 0, and 1/2 at even odds."""
    lead = (probability - 0.5) * gap
    return 0.5 if lead == 0 else float(lead > 0)


def _share(correct: Sequence[float]) -> IntervalEstimate:
    """Return a share with its Wilson interval; NaN without verdicts."""
    if not correct:
        return IntervalEstimate(math.nan, math.nan, math.nan)
    total, count = sum(correct), len(correct)
    return IntervalEstimate(total / count, *wilson_interval(total, count, 0.95))


def judge_tables(report: JudgeReport) -> list[Table | str]:
    """Return the agreement, the biases, and the biases that these pairs cannot show."""
    table = Table(title=f"{report.pairs} pairs, each in both orders", title_justify="left")
    table.box = box.SIMPLE_HEAD
    for column in ("", "value", "95 %", "without a fault"):
        table.add_column(column, overflow="fold")
    table.add_row("agreement, of single verdicts", *_cells(report.agreement), "1 (a coin: 0.50)")
    table.add_row("agreement, of both orders' mean", *_cells(report.label_agreement), "1")
    table.add_row("verdict changes with the order", f"{report.order_flips:.2f}", "", "0")
    table.add_row("pairs without a verdict", f"{report.invalid:.2f}", "", "0")
    for name, bias in report.biases.items():
        table.add_row(f"bias of {name}, log-odds", *_cells(bias), "0")
    lines = [f"not shown: {reason}" for reason in report.unseen]
    if not report.agreement.low > 0.5:  # also without pairs that have a better answer: NaN
        lines.append(
            "not shown: that the judge is better than a coin (the interval of single verdicts "
            "holds 0.50, or lies below it)"
        )
    return [table, *lines]


def judge_as_json(report: JudgeReport) -> dict[str, object]:
    """Return the whole report in JSON types; null for a missing number."""
    return {
        "pairs": report.pairs,
        "invalid": report.invalid,
        "agreement": _numbers(report.agreement),
        "label_agreement": _numbers(report.label_agreement),
        "order_flips": report.order_flips,
        "biases": {name: _numbers(bias) for name, bias in report.biases.items()},
        "unseen": [*report.unseen],
    }


def _cells(interval: IntervalEstimate) -> tuple[str, str]:
    return f"{interval.value:.2f}", f"[{interval.low:.2f}, {interval.high:.2f}]"


def _numbers(interval: IntervalEstimate) -> dict[str, float | None]:
    return {
        name: value if math.isfinite(value) else None for name, value in interval._asdict().items()
    }

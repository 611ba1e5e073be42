"""Rubric reward: the weighted share of criteria that are met according to a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.arguments import NonEmptyText, Probability
from rlcomp.errors import ConfigError, DataError
from rlcomp.interfaces.judge import Judge, JudgedReward, judge_all
from rlcomp.interfaces.reward import row_note


class Rubric(JudgedReward):
    """Rubric reward, ``R = clip(sum_k w_k p_k / sum_{w_k > 0} w_k, 0, 1)``.

    ``p_k`` is the judge's probability that the response meets criterion ``k``. A negative weight
    marks an unwanted property. The example's column holds the criteria as a list of
    ``{"criterion": text, "weight": number}`` (1 without a weight) or of texts. An example without
    the column gets the criteria of the configuration. If the judge has no verdict on a criterion,
    the row is invalid.

    Reads and writes: see :class:`rlcomp.interfaces.judge.JudgedReward`; the part is
    ``rubric``.

    Args:
        judge: the judge of whether a response (``{prediction}``) meets a criterion
            (``{reference}``).
        criteria: weight by criterion, for examples without the column.
        column: column of the examples with criteria.
        correct_from: least score of a correct response.

    Raises:
        ConfigError: no criterion has a weight above 0.
        DataError: (when called) the column holds no such list, or there are no criteria at all.

    Source:
        Gunjal et al. 2025 (Rubrics as Rewards), arXiv:2507.17746, section 3 (explicit aggregation).

    Examples:
        >>> judge = lambda response, criterion: float(criterion in response)
        >>> Rubric(judge=judge, criteria={"a": 3.0, "b": 1.0, "!": -2.0}).score("", "a!", "")
        0.25
    """

    name = "rubric"

    def __init__(
        self,
        *,
        judge: Judge,
        criteria: dict[str, float] | None = None,
        column: NonEmptyText = "rubric",
        correct_from: Probability = 1.0,
    ) -> None:
        super().__init__()
        if criteria and not any(weight > 0 for weight in criteria.values()):
            raise ConfigError(
                f"Rubric: criteria {criteria}: none has a weight above 0, so that nothing could be "
                "earned: give one such a weight"
            )
        self.judge = judge
        self.criteria = dict(criteria or {})
        self.column = column
        self.correct_from = correct_from

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """Return the score by the criteria of the example or of the configuration."""
        return self._score(str(row["response"]), self._criteria(row))

    def score_rows(
        self, rows: Sequence[Mapping[str, object]], numbers: Sequence[int]
    ) -> list[float | None]:
        """Return the scores of all rows, with one call of the judge for all criteria."""
        criteria = []
        for number, row in zip(numbers, rows, strict=True):
            with row_note(number, row):
                criteria.append(self._criteria(row))
        responses = [str(row["response"]) for row in rows]
        pairs = [(text, c) for text, own in zip(responses, criteria, strict=True) for c in own]
        met = iter(judge_all(self.judge, pairs))
        return [_share({criterion: next(met) for criterion in own}, own) for own in criteria]

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the score by the criteria of the configuration."""
        return self._score(response, self.criteria)

    def is_correct(self, score: float) -> bool:
        """Return whether the score is high enough."""
        return score >= self.correct_from

    def _criteria(self, row: Mapping[str, object]) -> Mapping[str, float]:
        own = row.get(self.column)
        criteria = self.criteria if own is None else _criteria(self.column, own)
        if not criteria:
            raise DataError(
                f"Rubric: this example has no column {self.column!r} and there are no criteria: "
                "write the column into the task's data, or set reward.criteria"
            )
        return criteria

    def _score(self, response: str, criteria: Mapping[str, float]) -> float | None:
        met = judge_all(self.judge, [(response, criterion) for criterion in criteria])
        return _share(dict(zip(criteria, met, strict=True)), criteria)


def _share(met: Mapping[str, float | None], criteria: Mapping[str, float]) -> float | None:
    """Return the weighted share of the criteria that are met; None if a verdict is missing."""
    total = 0.0
    for criterion, share in met.items():
        if share is None:
            return None
        total += criteria[criterion] * share
    full = sum(weight for weight in criteria.values() if weight > 0)
    return min(max(total / full, 0.0), 1.0)


def _criteria(column: str, value: object) -> dict[str, float]:
    """Return the weights by criterion of a column.

    Raises:
        DataError: the column is no list of criteria, or none has a weight above 0.
    """
    entries = value if isinstance(value, list) else []
    pairs = [_entry(entry) for entry in entries]
    weights = dict(pair for pair in pairs if pair is not None)
    if None in pairs or len(weights) < len(entries) or not any(w > 0 for w in weights.values()):
        raise DataError(
            f"Rubric: column {column!r} is {str(value)[:80]}: must be a list of different "
            '{"criterion": text, "weight": number} or texts, one weight at least above 0'
        )
    return weights


def _entry(entry: Any) -> tuple[str, float] | None:  # noqa: ANN401 - JSON
    text = entry if isinstance(entry, str) else None
    weight: object = 1.0
    if isinstance(entry, dict):
        text, weight = entry.get("criterion"), entry.get("weight", 1.0)
    fits = isinstance(text, str) and text and type(weight) in (int, float)
    return (str(text), float(str(weight))) if fits else None

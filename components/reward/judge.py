"""Rewards by a judge: scores, criteria of a rubric, and predicted segments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import NonEmptyText, Probability
from rlcomp.batch import decode_texts
from rlcomp.component import Component
from rlcomp.errors import ConfigError, DataError
from rlcomp.functional.prefix_match import last_boxed
from rlcomp.interfaces.judge import Judge, JudgedReward, judge_all, write_reasons
from rlcomp.interfaces.reward import row_note, write_reward
from rlcomp.metrics import record
from rlcomp.text.reasoning import ThoughtEnd


class JudgeScore(JudgedReward):
    """LLM-as-a-judge reward, ``R = judge(response, answer)`` in [0, 1].

    Reads and writes: see :class:`rlcomp.interfaces.judge.JudgedReward`; name in ``rewards``:
    ``judged``. A row without a verdict is invalid.

    Args:
        judge: the judge of response and reference; to replace it: ``judge@reward.judge=overlap``.
        correct_from: least score of a correct response.

    Source:
        Zheng et al. 2023 (LLM-as-a-judge, reference-guided), arXiv:2306.05685, section 3.1.
    """

    name = "judged"

    def __init__(self, *, judge: Judge, correct_from: Probability = 0.5) -> None:
        super().__init__()
        self.judge = judge
        self.correct_from = correct_from

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the judge's score."""
        return self.judge(response, answer)

    def score_rows(
        self, rows: Sequence[Mapping[str, object]], numbers: Sequence[int]
    ) -> list[float | None]:
        """Return the judge's scores of all rows, requested at once."""
        del numbers
        return judge_all(self.judge, [(str(row["response"]), str(row["answer"])) for row in rows])

    def is_correct(self, score: float) -> bool:
        """Return whether the score is high enough."""
        return score >= self.correct_from


class JudgedSegment(Component):
    r"""RLPT's next-segment reward: judge's score of the last ``\boxed{}`` after the thought.

    A response without a box, or with a box that is not UTF-8, is the policy's mistake: it gets
    reward 0 and is valid. If the judge returns None, the row is invalid. Only tokens under
    ``response_mask`` are read.

    Reads ``tokens``, ``response_mask`` ``[B, T]``, ``answer`` ``[B, W]``. Writes ``reward``,
    float32 ``[B]``, ``rewards`` (``{judged_segment: [B]}``), ``correct`` and ``reward_valid`` (bool
    ``[B]``), ``invalid_reason`` ``[B, W]``. Records ``reward/answered``, the share of responses
    with a box, and the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        judge: the judge of a prediction and the true text; to replace it:
            ``judge@reward.judge=overlap``.
        tokenizer: the policy's tokenizer, a fast one.
        think_end: the text that ends a thought; the box is searched after its first occurrence.
        correct_from: least score of a correct response.

    Raises:
        ConfigError: the tokenizer does not give the bytes of its tokens.
        DataError: the tokenizer cannot write ``think_end``, or the judge's score is not in [0, 1].

    Source:
        Prediction of the next segment, judged by a model: Li et al. 2025 (RLPT), arXiv:2509.19249.
    """

    reads = ("tokens", "response_mask", "answer")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid", "invalid_reason")

    def __init__(
        self,
        *,
        judge: Judge,
        tokenizer: PreTrainedTokenizerBase,
        think_end: NonEmptyText = "</think>",
        correct_from: Probability = 0.5,
    ) -> None:
        super().__init__()
        self.judge = judge
        self.correct_from = correct_from
        self._end = ThoughtEnd(tokenizer, think_end)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Judge every row."""
        boxes = self._boxes(batch)
        answers = decode_texts(batch["answer"])
        scores = [self._score(box, text) for box, text in zip(boxes, answers, strict=True)]
        device = batch["tokens"].device
        record("reward/answered", torch.tensor([box is not None for box in boxes]))
        valid = torch.tensor([score is not None for score in scores], device=device)
        values = [0.0 if score is None else score for score in scores]
        reward = torch.tensor(values, dtype=torch.float32, device=device)
        correct = reward >= self.correct_from
        write_reward(batch, reward, {"judged_segment": reward}, correct, valid)
        return write_reasons(batch, self.judge)

    def _boxes(self, batch: TensorDict) -> list[bytes | None]:
        rows = zip(batch["tokens"].cpu(), batch["response_mask"].cpu(), strict=True)
        texts = [self._end.bytes_of(tokens[mask].tolist()) for tokens, mask in rows]
        return [last_boxed(text, after=self._end.end_bytes) for text in texts]

    def _score(self, box: bytes | None, answer: str) -> float | None:
        prediction = None if box is None else _decode(box)
        if prediction is None:
            return 0.0
        score = self.judge(prediction, answer)
        if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
            raise DataError(
                f"{type(self.judge).__name__} scored {prediction[:60]!r} with {score}: a judge "
                "returns a number in [0, 1], or None without a verdict"
            )
        return score


def _decode(box: bytes) -> str | None:
    """Return the bytes decoded as UTF-8; None if they are not valid UTF-8."""
    try:
        return box.decode("utf-8")
    except UnicodeDecodeError:
        return None


class Rubric(JudgedReward):
    """Rubric reward, ``R = clip(sum_k w_k p_k / sum_{w_k > 0} w_k, 0, 1)``.

    ``p_k`` is the judge's probability that the response meets criterion ``k``. A negative weight
    marks an unwanted property. The example's column holds the criteria as a list of
    ``{"criterion": text, "weight": number}`` (1 without a weight) or of texts. An example without
    the column gets the criteria of the configuration. If the judge has no verdict on a criterion,
    the row is invalid.

    Reads and writes: see :class:`rlcomp.interfaces.judge.JudgedReward`; name in ``rewards``:
    ``rubric``.

    Args:
        judge: the judge of a response (``{prediction}``) and a criterion (``{reference}``).
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
                f"Rubric: criteria {criteria}: no weight is above 0, so that every reward "
                "would be 0: set a weight above 0"
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
        pairs = [
            (text, c) for text, weights in zip(responses, criteria, strict=True) for c in weights
        ]
        verdicts = iter(judge_all(self.judge, pairs))
        return [_share({c: next(verdicts) for c in weights}, weights) for weights in criteria]

    def score(self, prompt: str, response: str, answer: str) -> float | None:
        """Return the score by the criteria of the configuration."""
        return self._score(response, self.criteria)

    def is_correct(self, score: float) -> bool:
        """Return whether the score is high enough."""
        return score >= self.correct_from

    def _criteria(self, row: Mapping[str, object]) -> Mapping[str, float]:
        entries = row.get(self.column)
        criteria = self.criteria if entries is None else _column_criteria(self.column, entries)
        if not criteria:
            raise DataError(
                f"Rubric: this example has no column {self.column!r} and there are no criteria: "
                "write the column into the task's data, or set reward.criteria"
            )
        return criteria

    def _score(self, response: str, criteria: Mapping[str, float]) -> float | None:
        verdicts = judge_all(self.judge, [(response, criterion) for criterion in criteria])
        return _share(dict(zip(criteria, verdicts, strict=True)), criteria)


def _share(verdicts: Mapping[str, float | None], criteria: Mapping[str, float]) -> float | None:
    """Return the weighted share of the met criteria, in [0, 1]; None if a verdict is missing."""
    total = 0.0
    for criterion, probability in verdicts.items():
        if probability is None:
            return None
        total += criteria[criterion] * probability
    full = sum(weight for weight in criteria.values() if weight > 0)
    return min(max(total / full, 0.0), 1.0)


def _column_criteria(column: str, value: object) -> dict[str, float]:
    """Return the weights by criterion of a column.

    Raises:
        DataError: the column is not a list of criteria, or none has a weight above 0.
    """
    entries = value if isinstance(value, list) else []
    pairs = [_criterion_weight(entry) for entry in entries]
    weights = dict(pair for pair in pairs if pair is not None)
    if None in pairs or len(weights) < len(entries) or not any(w > 0 for w in weights.values()):
        raise DataError(
            f"Rubric: column {column!r} is {str(value)[:80]}: must be a list of different texts or "
            '{"criterion": text, "weight": number}, with at least one weight above 0'
        )
    return weights


def _criterion_weight(entry: Any) -> tuple[str, float] | None:  # noqa: ANN401 - JSON
    """Return the criterion and the weight of a list entry; None if the entry is malformed."""
    text = entry if isinstance(entry, str) else None
    weight: object = 1.0
    if isinstance(entry, dict):
        text, weight = entry.get("criterion"), entry.get("weight", 1.0)
    # ``type``, because True is an int; through a text, because mypy sees an object.
    fits = isinstance(text, str) and text and type(weight) in (int, float)
    return (str(text), float(str(weight))) if fits else None

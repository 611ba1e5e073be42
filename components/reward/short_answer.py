"""Reward of short answers: exact match, F1, or contained words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract
from rlcomp.verify.columns import gold_answers
from rlcomp.verify.short_answer import short_answer


class ShortAnswer(TextReward):
    r"""Reward equal to the agreement of the answer with the gold one, or the best of several.

    The gold answers are the example's answer and those in its column ``answers``, if it has one.
    :func:`rlcomp.verify.short_answer.short_answer` compares them.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``short_answer``. A gold answer without any word makes the row invalid.

    Args:
        metric: ``exact``: 1 if the words are equal; ``f1``: F1 of the words; ``contains``: 1 if the
            answer contains the gold words as whole words.
        where: place of the answer after the thought: ``whole``, ``tagged`` or ``boxed``. A missing
            answer scores 0.

    Raises:
        DataError: the column ``answers`` is no list of texts.

    Source:
        Rajpurkar et al. 2016, arXiv:1606.05250; as a reward Jin et al. 2025 (Search-R1),
        arXiv:2503.09516.
    """

    name = "short_answer"

    def __init__(
        self,
        *,
        metric: Literal["exact", "f1", "contains"] = "exact",
        where: Literal["whole", "boxed", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        self.metric = metric
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """Return the agreement with the best gold answer."""
        gold = gold_answers(row)
        if not gold:
            return None
        answer = extract(str(row["response"]), self.where)
        return 0.0 if answer is None else short_answer(answer, gold, metric=self.metric)

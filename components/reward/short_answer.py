"""Reward of short answers: exact match, F1, words that are contained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract
from rlcomp.verify.columns import gold_answers
from rlcomp.verify.short_answer import short_answer


class ShortAnswer(TextReward):
    r"""How well the response's answer agrees with the gold one, or the best of several.

    Gold are the answer of the example and those of its column ``answers``, if it has one. What is
    compared is told at :func:`rlcomp.verify.short_answer.short_answer`.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is
    ``short_answer``. An answer without any word is no gold answer: the row is invalid.

    Args:
        metric: ``exact``: 1 if the words are equal; ``f1``: of the words; ``contains``: 1 if the
            gold words stand in it, as whole words.
        where: the answer is the ``whole`` response, or it is ``tagged`` or ``boxed``, behind the
            thought in any case. No answer there scores 0.

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
        """Agreement with the best gold answer."""
        gold = gold_answers(row)
        if not gold:
            return None
        given = extract(str(row["response"]), self.where)
        return 0.0 if given is None else short_answer(given, gold, metric=self.metric)

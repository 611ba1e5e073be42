"""Fact reward: a number that the environment tells of an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlcomp.arguments import NonEmptyText
from rlcomp.interfaces.fact_reward import FactReward, facts_of


class Fact(FactReward):
    """``R = facts[name]``, such as what the tools of an episode cost; its weight says which way.

    Reads and writes: see :class:`rlcomp.interfaces.fact_reward.FactReward`; the part is ``fact``.

    Args:
        fact: its name.
        correct_from: the least number that counts as right; null: none does.
    """

    name = "fact"

    def __init__(self, *, fact: NonEmptyText, correct_from: float | None = None) -> None:
        super().__init__()
        self.facts_read = (fact,)
        self.correct_from = math.inf if correct_from is None else correct_from

    def score_row(self, row: Mapping[str, object]) -> float:
        """The number."""
        return facts_of(row)[self.facts_read[0]]

    def is_correct(self, score: float) -> bool:
        """Whether the number is as large as it has to be."""
        return score >= self.correct_from

"""Fact reward: a number that the environment gives for an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlcomp.arguments import NonEmptyText
from rlcomp.interfaces.fact_reward import FactReward, facts_of


class Fact(FactReward):
    """Fact reward ``R = facts[name]``, such as the cost of tools; its weight gives the sign.

    Reads and writes: see :class:`rlcomp.interfaces.fact_reward.FactReward`; the part is ``fact``.

    Args:
        fact: name of the fact.
        correct_from: least number of a right episode; null: no episode is right.
    """

    name = "fact"

    def __init__(self, *, fact: NonEmptyText, correct_from: float | None = None) -> None:
        super().__init__()
        self.facts_read = (fact,)
        self.correct_from = math.inf if correct_from is None else correct_from

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return the number."""
        return facts_of(row)[self.facts_read[0]]

    def is_correct(self, score: float) -> bool:
        """Return whether the number is large enough."""
        return score >= self.correct_from

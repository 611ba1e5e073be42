"""Repeated attempts at a question, until an answer is right or no attempt is left."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlcomp.interfaces.environment import Turn


class Attempts:
    """Attempts at a question, each with a score; an attempt with a score of at least 1 is right.

    The reward of an attempt is the rise of the best score, which begins at 0. So an episode's
    rewards sum to its best score, or to 0 if all scores are negative.

    Args:
        most: number of attempts.
        remark: the reply to a wrong answer if another attempt is left.
    """

    def __init__(self, most: int, remark: str) -> None:
        self.most = most
        self.remark = remark
        self.used = 0
        self.best = 0.0

    def answer(self, score: float) -> Turn:
        """Return the turn after an attempt with a score.

        Raises:
            ValueError: the score is not finite, so that there is no verdict.
        """
        if not math.isfinite(score):
            raise ValueError(f"the score is {score}: must be a finite number")
        self.used += 1
        before, self.best = self.best, max(self.best, score)
        over = score >= 1 or self.used == self.most
        return Turn(closing="" if over else self.remark, reward=self.best - before, done=over)

    def facts(self) -> Mapping[str, float]:
        """Return the number of ``attempts`` made, and ``solved``: whether one was right."""
        return {"attempts": float(self.used), "solved": float(self.best >= 1)}

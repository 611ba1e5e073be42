"""Attempts: a question is answered until an answer is right, or none is left."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlcomp.interfaces.environment import Turn


class Attempts:
    """Attempts at a question, each with a score up to 1, which is right.

    An attempt pays what the best score rises by, so that an episode is paid its best score.

    Args:
        most: how many there are.
        remark: what is said to an answer that is not right, where another may follow.
    """

    def __init__(self, most: int, remark: str) -> None:
        self.most = most
        self.remark = remark
        self.used = 0
        self.best = 0.0

    def judged(self, score: float) -> Turn:
        """What an attempt with a score is told and paid.

        Raises:
            ValueError: the score is not finite: no verdict.
        """
        if not math.isfinite(score):
            raise ValueError(f"the score is {score}: must be a finite number")
        self.used += 1
        before, self.best = self.best, max(self.best, score)
        over = score >= 1 or self.used == self.most
        return Turn(closing="" if over else self.remark, reward=self.best - before, done=over)

    def facts(self) -> Mapping[str, float]:
        """``attempts`` used, and whether one was right: ``solved``."""
        return {"attempts": float(self.used), "solved": float(self.best >= 1)}

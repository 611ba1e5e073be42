"""Base class of text rewards from a judge."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDict

from rlcomp.interfaces.judge import Judge, write_reasons
from rlcomp.interfaces.reward import TextReward
from rlcomp.keys import Key


class JudgedReward(TextReward):
    """Text reward by a judge; rows without a verdict are invalid and name the judge.

    Writes the reward entries and ``invalid_reason`` (``[B, W]`` uint8 texts).

    Attributes:
        judge: gives the verdicts.
    """

    writes: ClassVar[tuple[Key, ...]] = (*TextReward.writes, "invalid_reason")

    judge: Judge

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score every row; write the reward entries and the reasons of invalid rows."""
        return write_reasons(super().forward(batch), self.judge)

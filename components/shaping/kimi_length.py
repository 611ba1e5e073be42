"""Kimi k1.5's length reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.length import kimi_length
from rlcomp.interfaces.shaping import response_length, write_shaped_reward
from rlcomp.metrics import progress


class KimiLength(Component):
    """Kimi k1.5's length reward.

    ``R <- R + weight * lambda`` for correct, ``R + weight * min(0, lambda)`` for wrong responses,
    with ``lambda = 0.5 - (L - L_min) / (L_max - L_min)`` in the group; 0 if all lengths are equal.

    The weight grows linearly from 0 over the first part of the phase, so that accuracy comes before
    length.

    Reads ``reward``, ``reward_valid``, ``correct``, ``group_id`` ``[B]``, ``rewards``,
    ``response_mask`` ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``kimi_length`` of
    ``rewards`` (weighted).

    Args:
        weight: difference of the shortest and the longest answer of a group, in reward units.
        warm_up: share of the phase in which the weight grows; 0: no warm-up.

    Source:
        Kimi team 2025, arXiv:2501.12599, section 2.3.3.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "group_id", "response_mask")
    writes = ("reward", "rewards")
    min_group_size = 2

    def __init__(self, *, weight: NonNegativeFloat = 0.5, warm_up: Probability = 0.2) -> None:
        super().__init__()
        self.weight = weight
        self.warm_up = warm_up

    def forward(self, batch: TensorDict) -> TensorDict:
        """Add the weighted length reward."""
        length, valid = response_length(batch), batch["reward_valid"]
        score = kimi_length(length, batch["correct"], batch["group_id"], valid)
        part = self._weight() * score
        return write_shaped_reward(batch, "kimi_length", part, batch["reward"] + part)

    def _weight(self) -> float:
        if self.warm_up == 0:
            return self.weight
        return self.weight * min(1.0, progress() / self.warm_up)

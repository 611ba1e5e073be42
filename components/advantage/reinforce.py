"""REINFORCE advantage: reward minus a prompt-independent baseline."""

from __future__ import annotations

from typing import Literal

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Fraction
from rlcomp.component import Component
from rlcomp.functional.group import group_centred
from rlcomp.functional.masked import masked
from rlcomp.interfaces.advantage import broadcast


class Reinforce(Component):
    """REINFORCE advantage.

    ``A_i = R_i - b``.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``advantage``
    ``[B, T]``, 0 for invalid rewards. Invalid rewards are not part of a baseline either.

    Args:
        baseline: ``none``: b = 0. ``batch_mean``: b = mean(R) over the batch, own row included,
            which scales the expected gradient by 1 - 1/B. ``moving``: exponential moving average
            of the means of earlier batches (0 at the first).
        decay: decay of the moving average, per batch.

    Source:
        Williams 1992, Simple statistical gradient-following algorithms, eq. 3.
    """

    reads = ("reward", "reward_valid", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)

    average: Tensor
    seen: Tensor

    def __init__(
        self,
        *,
        baseline: Literal["none", "batch_mean", "moving"] = "batch_mean",
        decay: Fraction = 0.9,
    ) -> None:
        super().__init__()
        self.baseline = baseline
        self.decay = decay
        if baseline == "moving":
            self.register_buffer("average", torch.zeros(()))
            self.register_buffer("seen", torch.zeros((), dtype=torch.bool))

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        reward, valid = batch["reward"].detach(), batch["reward_valid"]
        if self.baseline == "batch_mean":
            one_group = torch.zeros_like(valid, dtype=torch.int64)
            return broadcast(batch, group_centred(reward, one_group, valid))
        if self.baseline == "none":
            return broadcast(batch, masked(reward, valid))
        before = self.average.clone()
        self._follow(reward[valid])
        return broadcast(batch, masked(reward - before, valid))

    def _follow(self, reward: Tensor) -> None:
        """Update the moving average with the mean of a batch."""
        if not len(reward):
            return
        mean = reward.to(self.average).mean()
        weight = 1 - self.decay * self.seen
        self.average += weight * (mean - self.average)
        self.seen.fill_(True)

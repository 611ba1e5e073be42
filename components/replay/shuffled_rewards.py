"""Control experiment with permuted rewards."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.seed import new_generator


class ShuffledRewards(Component):
    """Control that gives each step the reward of another one, so that nothing can be learnt.

    Reads and writes ``next.reward`` ``[N, 1]``.
    """

    reads = ("next.reward",)
    writes = ("next.reward",)

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Permute the rewards."""
        reward = batch["next", "reward"]
        order = torch.randperm(reward.shape[0], generator=self.generator)
        batch["next", "reward"] = reward[order]
        return batch

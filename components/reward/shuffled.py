"""A control: the right rewards on the wrong rows."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.run.seed import new_generator


class Shuffled(Component):
    """Deal out another reward's values at random over the batch: nothing can be learnt from it.

    Only ``reward`` is dealt out, among the valid rows; ``rewards``, ``correct`` and
    ``reward_valid`` stay true to their rows, so that evaluation is honest. Runs the reward inside,
    writes the same four keys.

    Args:
        reward: the reward whose values are dealt out.
    """

    reads = ()
    writes = ("reward", "rewards", "correct", "reward_valid")
    runs = ("reward",)
    contained = True

    def __init__(self, *, reward: Component) -> None:
        super().__init__()
        self.reward = reward
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the reward, then deal its values out."""
        result = self.reward(batch.copy())
        rows = result["reward_valid"].nonzero()[:, 0]
        order = torch.randperm(len(rows), generator=self.generator).to(rows.device)
        dealt = result["reward"].clone()
        dealt[rows] = result["reward"][rows[order]]
        batch.update(result.select(*Shuffled.writes))
        batch["reward"] = dealt
        return batch

"""A control: the right rewards on the wrong rows."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.seed import new_generator


class Shuffled(Component):
    """Deal out another reward's verdicts at random over the batch: nothing can be learnt from them.

    ``reward``, ``rewards`` and ``correct`` are dealt out together, among the valid rows, so that no
    part that reads any of them learns; hand an evaluator the reward inside. Runs the reward inside,
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
        source = torch.arange(batch.shape[0], device=rows.device)
        source[rows] = rows[order]
        for key in ("reward", "rewards", "correct"):
            batch[key] = result[key][source]
        batch["reward_valid"] = result["reward_valid"]
        return batch

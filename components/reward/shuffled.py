"""Shuffled rewards (control): a permutation of another reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.reward import name_without_verdict, shuffle_rewards
from rlcomp.seed import new_generator


class Shuffled(Component):
    """Shuffled rewards (control): a random permutation of another reward over the batch.

    ``reward``, ``rewards`` and ``correct`` are permuted together among valid rows, so that none of
    them carries a signal; give evaluators the inner reward. Runs the inner reward and
    writes the same four keys, and ``invalid_reason`` if that does.

    Args:
        reward: the reward whose values are permuted.
    """

    reads = ()
    writes = ("reward", "rewards", "correct", "reward_valid")
    may_write = ("invalid_reason",)
    runs = ("reward",)
    contained = True

    def __init__(self, *, reward: Component) -> None:
        super().__init__()
        self.reward = reward
        self.generator = new_generator()

    @property
    def is_free(self) -> bool:
        """True if the inner reward has no verdict."""
        return name_without_verdict(self.reward) is not None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Run the reward, then permute its values."""
        result = self.reward(batch.copy())
        shuffle_rewards(batch, result, self.generator)
        batch["reward_valid"] = result["reward_valid"]
        if "invalid_reason" in result.keys():
            batch["invalid_reason"] = result["invalid_reason"]
        return batch

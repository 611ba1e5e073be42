"""Shuffled rewards (control) after a reward of any kind."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.reward import shuffle_rewards
from rlcomp.seed import new_generator


class ShuffledShaping(Component):
    """Control that permutes the entries of a reward over the valid rows.

    ``reward``, ``rewards`` and ``correct`` are permuted together, so that none of them carries a
    signal. Rewards of tokens and turns and scores of steps do not change, so that this is no
    control for an advantage that reads them. ``reward=shuffled`` does the same with an inner
    reward; this stage comes after a reward with the settings of a recipe. Evaluators run the reward
    itself and get the true values.

    Reads and writes ``reward``, ``rewards``, ``correct`` ``[B]``; reads ``reward_valid`` ``[B]``.
    """

    reads = ("reward", "rewards", "correct", "reward_valid")
    writes = ("reward", "rewards", "correct")

    def __init__(self) -> None:
        super().__init__()
        self.generator = new_generator()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Permute the values."""
        shuffle_rewards(batch, batch, self.generator)
        return batch

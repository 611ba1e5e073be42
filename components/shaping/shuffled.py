"""Shuffled rewards (control) behind a reward of any kind."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.reward import shuffle_rewards
from rlcomp.seed import new_generator


class ShuffledShaping(Component):
    """Shuffled rewards (control): what a reward has written, permuted over the valid rows.

    ``reward``, ``rewards`` and ``correct`` are permuted together, so that none of them carries a
    signal; rewards of tokens and turns and scores of steps stay what they are, and where an
    advantage reads them this is no control. ``reward=shuffled`` does the same with a reward inside;
    this one stands behind a reward whose settings a recipe has given. Evaluators, which run the
    reward itself, see the true one.

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

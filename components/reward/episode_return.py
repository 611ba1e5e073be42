"""Episode return: the sum of the environment's rewards over the turns."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.interfaces.reward import write_reward
from rlcomp.interfaces.turns import episodes_of


class EpisodeReturn(Component):
    """Reward equal to the episode's return ``R = sum_k r_k`` of the environment's rewards.

    The sum is over all rows of the episode (``trajectory_id``). A sum beyond float32 is not valid.

    Reads ``turn_reward``, ``response_mask`` ``[B, T]``. Writes ``reward``, ``rewards``,
    ``correct`` and ``reward_valid`` ``[B]``.

    Args:
        correct_from: least return of a right episode.
    """

    reads = ("turn_reward", "response_mask")
    optional = ("episode_error", "trajectory_id")
    exclusive = "turn_reward"
    writes = ("reward", "rewards", "correct", "reward_valid")

    def __init__(self, *, correct_from: float = 1.0) -> None:
        super().__init__()
        self.correct_from = correct_from

    def forward(self, batch: TensorDict) -> TensorDict:
        """Sum the rewards of the turns."""
        paid = masked(batch["turn_reward"].detach(), batch["response_mask"]).sum(1)
        episode, first = (each.to(paid.device) for each in episodes_of(batch))
        reward = paid.new_zeros(len(first)).index_add(0, episode, paid)[episode]
        right, valid = reward >= self.correct_from, reward.isfinite()
        return write_reward(batch, reward, {"episode_return": reward}, right, valid)

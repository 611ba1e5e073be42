"""GRPO advantage: reward standardised in its group."""

from __future__ import annotations

from functools import partial

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.group import group_standardised
from rlcomp.interfaces.advantage import broadcast, of_episodes


class GroupMeanStd(Component):
    """GRPO advantage.

    ``A_i = (R_i - mean_g(R)) / (std_g(R) + eps)`` with the unbiased std (n - 1).

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Args:
        epsilon: eps, in reward units; 1e-6 in verl, 1e-4 in TRL.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "trajectory_id")
    min_group_size = 2

    def __init__(self, *, epsilon: PositiveFloat = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        advantage = of_episodes(batch, partial(group_standardised, epsilon=self.epsilon))
        return broadcast(batch, advantage)

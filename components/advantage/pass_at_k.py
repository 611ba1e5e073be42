"""Pass@k advantage: credit for the best response of a group only."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.functional.group import pass_at_k_advantage
from rlcomp.interfaces.advantage import broadcast


class PassAtK(Component):
    """Pass@k advantage: leave-one-out gradient of the expected maximum.

    ``A_i = (R_(1) - R_(2)) / (std_g(R) + eps)`` for the best response, 0 for all others;
    ``R_(1) >= R_(2)`` are the two highest rewards of the group, so ties get 0.

    Optimises the best of ``group_size`` responses instead of their mean.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``response_mask`` ``[B, T]``. Writes
    ``advantage`` ``[B, T]``: 0 in groups of equal rewards, in groups of one and for invalid
    rewards.

    Args:
        epsilon: eps, in reward units; null: no division by the std.

    Source:
        Tang et al. 2025, arXiv:2503.19595, with k = ``group_size``; the division is verl's.
    """

    reads = ("reward", "reward_valid", "group_id", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def __init__(self, *, epsilon: PositiveFloat | None = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        advantage = pass_at_k_advantage(
            batch["reward"], batch["group_id"], batch["reward_valid"], self.epsilon
        )
        return broadcast(batch, advantage)

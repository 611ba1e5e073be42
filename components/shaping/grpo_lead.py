"""GRPO-LEAD's length-dependent accuracy reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.functional.length import grpo_lead
from rlcomp.interfaces.shaping import response_length, write_shaped_reward


class GRPOLead(Component):
    """GRPO-LEAD's length-dependent accuracy reward.

    ``R = exp(-alpha * z)`` for correct responses, -1 for wrong ones, with
    ``z = (L - mean(L)) / std(L)`` over the correct responses of the group.

    The paper's difficulty weights are ``advantage=difficulty_weighted``.

    Reads ``reward``, ``reward_valid``, ``correct``, ``group_id`` ``[B]``, ``rewards``,
    ``response_mask`` ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``grpo_lead`` of
    ``rewards``.

    Args:
        alpha: rate of the decay per standard deviation of length.

    Source:
        Zhang and Zuo 2025, arXiv:2504.09696, section 3.1.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "group_id", "response_mask")
    writes = ("reward", "rewards")
    min_group_size = 2

    def __init__(self, *, alpha: NonNegativeFloat = 0.05) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        right = batch["correct"] & batch["reward_valid"]
        reward = grpo_lead(response_length(batch), right, batch["group_id"], self.alpha)
        return write_shaped_reward(batch, "grpo_lead", reward, reward)

"""L1's LCPO-Exact reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveInt
from rlcomp.component import Component
from rlcomp.functional.length import l1_exact
from rlcomp.interfaces.shaping import response_length, write_shaped_reward


class L1Exact(Component):
    """L1's LCPO-Exact reward.

    ``R = 1[correct] - alpha * |L* - L|`` with ``L*`` = ``target_length``; wrong responses are
    penalised too.

    State the target in the prompt (``task.prompt_template``).

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``l1_exact`` of ``rewards``.

    Args:
        target_length: target number of tokens.
        alpha: penalty per token, in reward units.

    Source:
        Aggarwal and Welleck 2025 (LCPO-Exact), arXiv:2503.04697, eq. 1.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "response_mask")
    writes = ("reward", "rewards")

    def __init__(self, *, target_length: PositiveInt, alpha: NonNegativeFloat = 3e-4) -> None:
        super().__init__()
        self.target_length = target_length
        self.alpha = alpha

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        length = response_length(batch)
        reward = l1_exact(length, batch["correct"], self.target_length, self.alpha)
        return write_shaped_reward(batch, "l1_exact", reward, reward)

"""L1's LCPO-Max reward."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat, PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.functional.length import l1_max
from rlcomp.interfaces.shaping import response_length, write_shaped_reward


class L1Max(Component):
    """L1's LCPO-Max reward.

    ``R = 1[correct] * clip(alpha * (L* - L) + delta, 0, 1)`` with ``L*`` = ``target_length``.

    State the target in the prompt (``task.prompt_template``). A correct response that is too long
    gets 0, like a wrong one.

    Reads ``reward``, ``reward_valid``, ``correct`` ``[B]``, ``rewards``, ``response_mask``
    ``[B, T]``. Writes ``reward`` ``[B]`` and the part ``l1_max`` of ``rewards``.

    Args:
        target_length: target number of tokens.
        alpha: penalty per token, in reward units.
        delta: reward of a right answer of the target length, in reward units.

    Source:
        Aggarwal and Welleck 2025 (LCPO-Max), arXiv:2503.04697, eq. 2.
    """

    reads = ("reward", "rewards", "reward_valid", "correct", "response_mask")
    writes = ("reward", "rewards")

    def __init__(
        self,
        *,
        target_length: PositiveInt,
        alpha: NonNegativeFloat = 3e-4,
        delta: Probability = 0.5,
    ) -> None:
        super().__init__()
        self.target_length = target_length
        self.alpha = alpha
        self.delta = delta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the reward."""
        length = response_length(batch)
        reward = l1_max(length, batch["correct"], self.target_length, self.alpha, self.delta)
        return write_shaped_reward(batch, "l1_max", reward, reward)

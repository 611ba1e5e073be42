"""Reward-to-go (REINFORCE without a baseline)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import Probability
from rlcomp.component import Component
from rlcomp.functional.returns import reward_to_go
from rlcomp.interfaces.advantage import rewards_per_token, write_advantage


class RewardToGo(Component):
    """Reward-to-go.

    ``A_t = G_t = r_t + gamma * G_{t+1}``; ``t+1`` is the next response token.

    The outcome reward is on the last response token. Tokens outside the response (tool output) are
    not steps: they neither discount nor interrupt the return.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``advantage``
    ``[B, T]``, 0 for invalid rewards.

    Args:
        gamma: discount per token of the response.

    Source:
        Williams 1992; Sutton & Barto 2018, section 13.3.
    """

    reads = ("reward", "reward_valid", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "step_end")  # a return credits steps as well

    def __init__(self, *, gamma: Probability = 1.0) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        counted = batch["response_mask"] & batch["reward_valid"][:, None]
        return write_advantage(batch, reward_to_go(rewards_per_token(batch), counted, self.gamma))

"""REINFORCE++ advantage: reward-to-go, whitened over the batch."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.returns import reward_to_go
from rlcomp.functional.whiten import whiten
from rlcomp.interfaces.advantage import rewards_per_token, write_advantage


class BatchWhitened(Component):
    """REINFORCE++ advantage.

    ``A_t = (G_t - mean(G)) / sqrt(var(G) + 1e-8)`` with ``G_t = sum_{s >= t} r_s``; mean and
    unbiased variance over all response tokens of the batch.

    With ``kl=in_token_reward`` a token is credited with the KL penalties from itself on. Tool
    output inside a response does not interrupt the return.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask`` ``[B, T]``. Writes ``advantage``
    ``[B, T]``: 0 for invalid rewards, and everywhere when all rewards are equal.

    Source:
        Hu et al. 2025 (REINFORCE++), arXiv:2501.03262, eq. 6 and 7.
    """

    reads = ("reward", "reward_valid", "response_mask")
    writes = ("advantage",)
    optional = ("token_reward", "step_end")  # a return credits steps as well

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        counted = batch["response_mask"] & batch["reward_valid"][:, None]
        returns = reward_to_go(rewards_per_token(batch), counted, gamma=1.0)
        return write_advantage(batch, whiten(returns, counted))

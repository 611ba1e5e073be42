"""Generalised advantage estimation (GAE) over the tokens of the response."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Probability
from rlcomp.component import Component
from rlcomp.functional.linear_recurrence import last_inside
from rlcomp.functional.masked import masked
from rlcomp.functional.returns import gae
from rlcomp.functional.whiten import whiten
from rlcomp.interfaces.advantage import rewards_per_token, write_advantage
from rlcomp.metrics import record


class GAE(Component):
    """Generalised advantage estimation (GAE).

    ``A_t = delta_t + gamma * lambda * A_{t+1}`` with ``delta_t = r_t + gamma * V_{t+1} - V_t``;
    ``t+1`` is the next response token.

    Tokens outside the response (tool output) are not steps. ``returns`` is ``A + V`` before
    whitening: the TD(lambda) return.

    Reads ``reward``, ``reward_valid``, ``truncated`` ``[B]``, ``response_mask``, ``value``
    ``[B, T]``. Writes ``advantage`` and ``returns`` ``[B, T]``. For an invalid reward the advantage
    is 0 and not part of the whitening; ``returns`` is ``value`` there, so that the critic gets no
    gradient.

    Args:
        gamma: discount per token of the response.
        gae_lambda: lambda; 0: one-step TD error, 1: Monte-Carlo return minus value.
        whiten: advantages to mean 0 and variance 1 over the tokens of the batch.
        bootstrap_truncated: bootstrap responses truncated at the length limit. The batch has no
            value after the last token, so ``V`` of the last response token is used. False:
            truncation is terminal, like EOS.

    Source:
        Schulman et al. 2016, arXiv:1506.02438, eq. 16; Schulman et al. 2017, arXiv:1707.06347.
    """

    reads = ("reward", "reward_valid", "response_mask", "value", "truncated")
    writes = ("advantage", "returns")
    optional = ("token_reward", "step_end")  # a return credits steps as well

    def __init__(
        self,
        *,
        gamma: Probability = 1.0,
        gae_lambda: Probability = 0.95,
        whiten: bool = True,
        bootstrap_truncated: bool = False,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.gae_lambda = gae_lambda
        self.whiten = whiten
        self.bootstrap_truncated = bootstrap_truncated

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        mask, value = batch["response_mask"], batch["value"].detach()
        counted = mask & batch["reward_valid"][:, None]
        rewards, last = rewards_per_token(batch), self._last_value(batch)
        advantage = gae(rewards, value, counted, self.gamma, self.gae_lambda, last)
        record("advantage/abs", advantage.abs(), where=counted)
        batch["returns"] = masked(value + advantage, mask)
        return write_advantage(batch, whiten(advantage, counted) if self.whiten else advantage)

    def _last_value(self, batch: TensorDict) -> Tensor | None:
        if not self.bootstrap_truncated:
            return None
        last = last_inside(batch["value"].detach(), batch["response_mask"])
        return masked(last, batch["truncated"])

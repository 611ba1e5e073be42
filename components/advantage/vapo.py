"""VAPO advantage: length-adaptive, decoupled GAE."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.returns import gae, length_adaptive_lambda, td_lambda_returns
from rlcomp.functional.whiten import whiten
from rlcomp.interfaces.advantage import rewards_per_token, write_advantage
from rlcomp.metrics import record


class VAPO(Component):
    """VAPO advantage: length-adaptive, decoupled GAE.

    ``A_t = delta_t + gamma * lambda_i * A_{t+1}`` with
    ``lambda_i = clip(1 - 1 / (alpha * n_i), 0, 1)`` and ``n_i`` response tokens; critic target
    ``G_t = r_t + gamma * G_{t+1}`` (lambda = 1).

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask``, ``value`` ``[B, T]``. Writes
    ``advantage`` and ``returns`` ``[B, T]``. For an invalid reward the advantage is 0 and not part
    of the whitening, and ``returns`` is ``value``.

    Args:
        gamma: discount per token of the response.
        alpha: ``sum_k lambda_i^k`` is about ``alpha * n_i``; responses of at most ``1 / alpha``
            tokens get lambda 0.
        whiten: advantages to mean 0 and variance 1 over the tokens of the batch.

    Source:
        VAPO, arXiv:2504.05118, sections 4.1 and 4.2; Yuan et al. 2025, arXiv:2503.01491.
    """

    reads = ("reward", "reward_valid", "response_mask", "value")
    writes = ("advantage", "returns")
    optional = ("token_reward", "step_end")  # a return credits steps as well

    def __init__(
        self, *, gamma: Probability = 1.0, alpha: PositiveFloat = 0.05, whiten: bool = True
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.alpha = alpha
        self.whiten = whiten

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        mask, value = batch["response_mask"], batch["value"].detach()
        rewards, counted = rewards_per_token(batch), mask & batch["reward_valid"][:, None]
        gae_lambda = length_adaptive_lambda(mask, self.alpha)
        record("advantage/gae_lambda", gae_lambda)
        advantage = gae(rewards, value, counted, self.gamma, gae_lambda)
        record("advantage/abs", advantage.abs(), where=counted)
        targets = td_lambda_returns(rewards, value, counted, self.gamma, 1.0)
        batch["returns"] = masked(torch.where(counted, targets, value), mask)
        return write_advantage(batch, whiten(advantage, counted) if self.whiten else advantage)

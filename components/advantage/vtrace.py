"""V-trace advantage (IMPALA): off-policy corrected."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat, Probability
from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.functional.ratio import log_ratio
from rlcomp.functional.vtrace import vtrace
from rlcomp.interfaces.advantage import rewards_per_token, write_advantage
from rlcomp.metrics import record


class VTrace(Component):
    """V-trace advantage and returns (IMPALA).

    ``A_t = rho_t (r_t + gamma * vs_{t+1} - V_t)`` and
    ``vs_t = V_t + rho_t (r_t + gamma * V_{t+1} - V_t) + gamma * c_t (vs_{t+1} - V_{t+1})`` with
    ``rho_t = min(rho_max, w_t)``, ``c_t = min(c_max, w_t)``,
    ``w_t = pi_old(a_t) / pi_rollout(a_t)``.

    The advantage contains ``rho_t`` already: do not combine it with a loss that has an importance
    weight against the sampler. With ``old_log_probs=rollout`` all weights are 1.

    Reads ``reward``, ``reward_valid`` ``[B]``, ``response_mask``, ``value``, ``old_log_probs``,
    ``rollout_log_probs`` ``[B, T]``. Writes ``advantage`` and ``returns`` ``[B, T]``. For an
    invalid reward the advantage is 0, and ``returns`` is ``value`` itself.

    Args:
        gamma: discount per token of the response.
        rho_max: cap of ``rho_t``; it determines the policy whose value ``vs`` is.
        c_max: cap of ``c_t``, the trace coefficient.

    Source:
        Espeholt et al. 2018 (IMPALA), arXiv:1802.01561, eq. 1 and section 4.2.
    """

    reads = (
        "reward",
        "reward_valid",
        "response_mask",
        "value",
        "old_log_probs",
        "rollout_log_probs",
    )
    writes = ("advantage", "returns")
    optional = ("token_reward", "step_end")  # a return credits steps as well

    def __init__(
        self,
        *,
        gamma: Probability = 1.0,
        rho_max: PositiveFloat = 1.0,
        c_max: PositiveFloat = 1.0,
    ) -> None:
        super().__init__()
        self.gamma = gamma
        self.rho_max = rho_max
        self.c_max = c_max

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write advantage and returns."""
        mask, value = batch["response_mask"], batch["value"].detach()
        counted = mask & batch["reward_valid"][:, None]
        old, rollout = batch["old_log_probs"].detach(), batch["rollout_log_probs"]
        ratio = log_ratio(old, rollout, counted).exp()
        record("advantage/rho_capped", (ratio > self.rho_max).float(), where=counted)
        rewards, caps = rewards_per_token(batch), (self.rho_max, self.c_max)
        advantage, returns = vtrace(rewards, value, ratio, counted, self.gamma, *caps)
        batch["returns"] = masked(torch.where(counted, returns, value), mask)
        return write_advantage(batch, advantage)

"""The baseline of least variance, token by token."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.baseline import score_energy, weighted_token_baseline
from rlcomp.interfaces.advantage import put_advantage, rewards_per_token
from rlcomp.metrics import record


class OptimalTokenBaseline(Component):
    """``G_t - sum_i W_it G_it / sum_i W_it`` over the group's answers that still run at ``t``.

    ``W`` sums ``1 - 2 pi + sum_v pi_v^2`` up to the token: how far a token moves the weights, for
    which the norm of the gradient by the logits stands. Needs ``proximal=recomputed_moments``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``old_log_probs``, ``squared_probs``,
    ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 where the answers that still
    run have equal returns, where one alone is left, and for invalid rewards.

    Source:
        Li et al. 2026, The Optimal Token Baseline, PMLR 306, as in verl.
    """

    reads = (
        "reward",
        "reward_valid",
        "group_id",
        "old_log_probs",
        "squared_probs",
        "response_mask",
    )
    writes = ("advantage",)
    optional = ("token_reward",)
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask = batch["response_mask"] & batch["reward_valid"][:, None]
        returns = rewards_per_token(batch).flip(1).cumsum(1).flip(1)
        energy = score_energy(batch["old_log_probs"].detach(), batch["squared_probs"], mask)
        advantage = weighted_token_baseline(returns, energy.cumsum(1), mask, batch["group_id"])
        record("advantage/abs", advantage.abs(), where=mask)
        record("advantage/zero_fraction", advantage == 0, where=mask)
        return put_advantage(batch, advantage)

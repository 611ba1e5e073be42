"""Optimal token baseline (OTB): token-level minimum-variance group baseline."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.baseline import squared_score_norm, weighted_token_baseline
from rlcomp.interfaces.advantage import rewards_per_token, write_advantage
from rlcomp.metrics import record


class OptimalTokenBaseline(Component):
    """Optimal token baseline (OTB).

    ``A_it = G_it - sum_j W_jt G_jt / sum_j W_jt`` over the responses of the group that have a token
    at ``t``, with ``W_it = sum_{s <= t} (1 - 2 pi(a_is) + sum_v pi(v)^2)``.

    ``W`` accumulates the squared norm of the gradient of ``log pi`` in the logits, a proxy for the
    norm in the parameters. Needs ``old_log_probs=recomputed_moments``.

    Reads ``reward``, ``reward_valid``, ``group_id`` ``[B]``, ``old_log_probs``, ``squared_probs``,
    ``response_mask`` ``[B, T]``. Writes ``advantage`` ``[B, T]``: 0 where the responses at ``t``
    have equal returns, where only one is left, and for invalid rewards.

    Source:
        Li et al. 2026, The Optimal Token Baseline, PMLR 306, as in verl.
    """

    keys = {
        "squared_probs": (
            "B T",
            "float",
            "sum over the vocabulary of pi_old squared",
            {"example": "probability"},
        )
    }
    reads = (
        "reward",
        "reward_valid",
        "group_id",
        "old_log_probs",
        "squared_probs",
        "response_mask",
    )
    writes = ("advantage",)
    optional = ("token_reward", "step_end")  # a return credits steps as well
    min_group_size = 2

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the advantage."""
        mask = batch["response_mask"] & batch["reward_valid"][:, None]
        returns = rewards_per_token(batch).flip(1).cumsum(1).flip(1)
        energy = squared_score_norm(batch["old_log_probs"].detach(), batch["squared_probs"], mask)
        advantage = weighted_token_baseline(returns, energy.cumsum(1), mask, batch["group_id"])
        record("advantage/abs", advantage.abs(), where=mask)
        record("advantage/zero_fraction", advantage == 0, where=mask)
        return write_advantage(batch, advantage)

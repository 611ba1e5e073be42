"""Token-level importance ratio (PPO, GRPO)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.kl import kl_estimate
from rlcomp.functional.ratio import log_ratio
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class TokenRatio(Part):
    """Token-level importance ratio (PPO, GRPO).

    ``r_t = pi(a_t|s_t) / pi_old(a_t|s_t)``, its log clamped to [-20, 20].

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio`` ``[B,
    T]``, 1 outside the mask.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, section 3.
    """

    equation = "r_t = pi(a_t) / pi_old(a_t)"
    reads = ("log_probs", "old_log_probs", "response_mask")
    writes = ("ratio",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the ratio."""
        mask = batch["response_mask"]
        batch["ratio"] = log_ratio(batch["log_probs"], batch["old_log_probs"], mask).exp()
        record("ratio/mean", batch["ratio"], where=mask)
        approx_kl = kl_estimate(batch["old_log_probs"], batch["log_probs"].detach(), mask, "k3")
        record("ratio/approx_kl", approx_kl, where=mask)
        return batch

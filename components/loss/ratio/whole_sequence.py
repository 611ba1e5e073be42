"""Sequence-level importance ratio, not length-normalised (RLOO)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.kl import kl_estimate
from rlcomp.functional.ratio import log_ratio, whole_sequence_ratio
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class WholeSequenceRatio(Part):
    """Sequence-level importance ratio (RLOO): the response is one action.

    ``r_it = sg[r_i] (pi(a_it) / sg[pi(a_it)])^n_i`` with
    ``r_i = pi(y_i) / pi_old(y_i) = exp(sum_t log(pi_t / pi_old_t))``, not length-normalised.

    With one advantage per response and ``reduction: sequence_mean`` value and gradient are those of
    one clipped objective per response, ``(1 / S) sum_i min(r_i A_i, clip(r_i) A_i)``. With
    advantages that differ between tokens (a critic's, a KL in the token rewards) each token's
    log-prob has the gradient ``r_i A_it / S``: the importance-weighted policy gradient, with credit
    by token. A token sum would count a response once per token. The log of ``r_i`` is clamped to
    [-20, 20].

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio`` ``[B,
    T]``, the same at every token of a row, 1 outside the mask.

    Source:
        Ahmadian et al. 2024 (RLOO), arXiv:2402.14740, section 3.
    """

    equation = "r_t = sg[pi(y) / pi_old(y)] (pi(a_t) / sg[pi(a_t)])^n"
    reads = ("log_probs", "old_log_probs", "response_mask")
    writes = ("ratio",)
    changes_on_policy_gradient = True  # a token's gradient is n times its weight

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the ratio."""
        mask = batch["response_mask"]
        token = log_ratio(batch["log_probs"], batch["old_log_probs"], mask)
        batch["ratio"] = whole_sequence_ratio(token, mask)
        record("ratio/mean", batch["ratio"], where=mask)
        approx_kl = kl_estimate(batch["old_log_probs"], batch["log_probs"].detach(), mask, "k3")
        record("ratio/approx_kl", approx_kl, where=mask)
        return batch

"""GSPO-token importance ratio."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.kl import kl_estimate
from rlcomp.functional.ratio import log_ratio, sequence_token_ratio
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class SequenceTokenRatio(Part):
    """GSPO-token ratio: GSPO's value, with a token-level gradient.

    ``s_it = sg[s_i] * pi(a_it) / sg[pi(a_it)]`` with ``s_i`` of ``ratio: sequence``.

    It serves advantages that differ between the tokens of a response. With one advantage per
    response and ``reduction: sequence_mean``, loss and gradient are those of ``ratio: sequence``.

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio`` ``[B,
    T]``, 1 outside the mask.

    Source:
        Zheng et al. 2025 (GSPO-token), arXiv:2507.18071, eq. 14.
    """

    equation = "r_t = sg[(pi(y) / pi_old(y))^(1 / n)] pi(a_t) / sg[pi(a_t)]"
    reads = ("log_probs", "old_log_probs", "response_mask")
    writes = ("ratio",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the ratio."""
        mask = batch["response_mask"]
        token = log_ratio(batch["log_probs"], batch["old_log_probs"], mask)
        batch["ratio"] = sequence_token_ratio(token, mask)
        record("ratio/mean", batch["ratio"], where=mask)
        approx_kl = kl_estimate(batch["old_log_probs"], batch["log_probs"].detach(), mask, "k3")
        record("ratio/approx_kl", approx_kl, where=mask)
        return batch

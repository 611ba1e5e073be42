"""GSPO's sequence-level importance ratio, length-normalised."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.kl import kl_estimate
from rlcomp.functional.ratio import log_ratio, sequence_ratio
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class SequenceRatio(Part):
    """GSPO ratio: geometric mean of the response's token ratios.

    ``s_i = (pi(y_i) / pi_old(y_i))^(1 / n_i) = exp((1 / n_i) sum_t log(pi_t / pi_old_t))``; its
    gradient in each token's log-prob is ``s_i / n_i``.

    A response is clipped or kept as a whole. ``s_i`` stays so near 1 that clip ranges are two
    orders of magnitude narrower than for token ratios (``trust_region: clip_narrow``). Use
    ``reduction: sequence_mean``: a token sum would weight responses by their length. It needs one
    advantage per response; ``ratio: sequence_token`` credits each token with its own.

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio`` ``[B,
    T]``, the same at every token of a row, 1 outside the mask.

    Source:
        Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7.
    """

    equation = "r_t = (pi(y) / pi_old(y))^(1 / n)"
    reads = ("log_probs", "old_log_probs", "response_mask")
    writes = ("ratio",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the ratio."""
        mask = batch["response_mask"]
        token = log_ratio(batch["log_probs"], batch["old_log_probs"], mask)
        batch["ratio"] = sequence_ratio(token, mask)
        record("ratio/mean", batch["ratio"], where=mask)
        approx_kl = kl_estimate(batch["old_log_probs"], batch["log_probs"].detach(), mask, "k3")
        record("ratio/approx_kl", approx_kl, where=mask)
        return batch

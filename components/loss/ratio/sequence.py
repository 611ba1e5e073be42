"""The importance ratio of the whole response, normalised by its length."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.kl import kl_estimate
from rlcomp.functional.ratio import log_ratio, sequence_ratio
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class SequenceRatio(Part):
    """``s_i = (pi(y_i) / pi_old(y_i)) ** (1 / n_i)``, with gradient ``s_i / n_i`` at every token.

    Clipping keeps or drops a response as a whole; it leaves 1 so slowly that bounds are two orders
    narrower than those of tokens (``trust_region: clip_narrow``). Weigh responses equally
    (``reduction: sequence_mean``): summed over tokens, a long one counts by its length.

    Reads ``log_probs``, ``old_log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio`` ``[B,
    T]``, the same at every token of a row, 1 outside the mask.

    Source:
        Zheng et al. 2025 (GSPO), arXiv:2507.18071, eq. 7.
    """

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

"""Absence of an importance ratio: the score-function (REINFORCE) gradient."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.functional.ratio import log_ratio
from rlcomp.interfaces.loss import Part


class NoRatio(Part):
    """No importance ratio: the score-function (REINFORCE) gradient.

    ``r_t = pi(a_t) / sg[pi(a_t)]``: value 1, gradient ``grad log pi(a_t)``.

    With ``trust_region: none`` the loss has REINFORCE's gradient. It needs on-policy data, as it
    does not correct for stale samples.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``. Writes ``ratio`` ``[B, T]``.

    Source:
        Williams 1992, doi:10.1007/BF00992696; as a ratio: Foerster et al. 2018, arXiv:1802.05098.
    """

    equation = "r_t = pi(a_t) / sg[pi(a_t)]"
    reads = ("log_probs", "response_mask")
    writes = ("ratio",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the ratio."""
        log_probs = batch["log_probs"]
        batch["ratio"] = log_ratio(log_probs, log_probs.detach(), batch["response_mask"]).exp()
        return batch

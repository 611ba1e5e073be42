"""The policy loss: a ratio, a trust region and a reduction."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component, masked
from rlcomp.loss import Loss, scalars


class PolicyLoss(Loss):
    """``loss = -sum_t loss_weight_t * surrogate_t``: a named algorithm is a choice of three parts.

    Reads ``response_mask``, ``advantage`` and what the parts read, all ``[B, T]``. Writes the
    scalar ``loss``.

    Args:
        ratio: writes ``ratio`` from ``log_probs`` and ``old_log_probs``.
        trust_region: writes ``surrogate`` from ``ratio`` and ``advantage``.
        reduction: writes ``loss_weight``.

    Source:
        Schulman et al. 2017, arXiv:1707.06347; Shao et al. 2024, arXiv:2402.03300.
    """

    reads = ("response_mask", "advantage")
    runs = ("reduction", "ratio", "trust_region")
    contained = True

    def __init__(self, *, ratio: Component, trust_region: Component, reduction: Component) -> None:
        super().__init__(reduction=reduction)
        self.ratio = ratio
        self.trust_region = trust_region

    def forward(self, batch: TensorDict) -> TensorDict:
        """The scalar loss of these rows."""
        view = self.weighted(batch).copy()
        view["advantage"] = view["advantage"].detach()
        view = self.trust_region(self.ratio(view))
        surrogate = masked(view["surrogate"], view["response_mask"])
        return scalars(loss=-(surrogate * view["loss_weight"]).sum())

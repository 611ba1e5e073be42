"""Supervised fine-tuning: negative log-likelihood of the response tokens."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import TokenLoss, scalars


class SFTLoss(TokenLoss):
    """SFT loss: negative log-likelihood of the response tokens.

    ``loss = -sum_t w_t * log pi(a_t)`` with ``w_t`` = ``loss_weight``.

    Reads ``response_mask``, ``log_probs`` ``[B, T]``. Writes the scalar ``loss``, in nats.

    Args:
        reduction: writes ``loss_weight``; ``token_mean`` is the usual cross-entropy.
    """

    equation = "loss = -sum_t w_t log pi(a_t)"
    reads = ("response_mask", "log_probs")
    runs = ("reduction",)
    contained = True

    def __init__(self, *, reduction: Component) -> None:
        super().__init__(reduction=reduction)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Return the scalar loss of these rows."""
        batch = self.weighted(batch)
        log_probs = masked(batch["log_probs"], batch["response_mask"])
        return scalars(loss=-(log_probs * batch["loss_weight"]).sum())

"""Log-ratio corrected by the KL of the positions (TDPO)."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat
from rlcomp.functional.preference_score import forward_kl, token_log_ratio
from rlcomp.interfaces.preference import Score


class SequentialKL(Score):
    """Log-ratio corrected by the KL of the positions (TDPO).

    ``u = h + alpha K, K = sum_t KL(pi_ref(.|s_t) || pi(.|s_t)); K of chosen answers detached``.

    Needs ``reference=frozen_full``.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``, ``log_distribution``,
    ``ref_log_distribution`` ``[B, T, V]``, ``chosen`` ``[B]``. Writes ``score`` ``[B]``, nats, with
    gradient.

    Args:
        alpha: weight of the KL; 1 in TDPO1, 0 is DPO.
        detach_chosen: no gradient through the KL of chosen answers (TDPO2).

    Source:
        Zeng et al. 2024 (TDPO), arXiv:2404.11999, eq. 14 (TDPO1) and 16 (TDPO2).
    """

    equation = (
        "u = h + {alpha} K, K = sum_t KL(pi_ref(.|s_t) || pi(.|s_t)), K of chosen detached: "
        "{detach_chosen}"
    )
    reads = (
        "log_probs",
        "ref_log_probs",
        "log_distribution",
        "ref_log_distribution",
        "response_mask",
        "chosen",
    )

    def __init__(self, *, alpha: NonNegativeFloat = 0.5, detach_chosen: bool = True) -> None:
        super().__init__()
        self.alpha = alpha
        self.detach_chosen = detach_chosen

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        kl = forward_kl(batch["log_distribution"], batch["ref_log_distribution"], mask)
        if self.detach_chosen:
            kl = torch.where(batch["chosen"], kl.detach(), kl)
        return ratio.sum(1) + self.alpha * kl

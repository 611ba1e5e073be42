"""Log-ratio with a smaller weight of tokens beyond the shorter answer (LD-DPO)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import Probability
from rlcomp.functional.preference_score import length_desensitised, token_log_ratio
from rlcomp.interfaces.preference import Score


class LengthDesensitised(Score):
    """Log-ratio with a smaller weight of tokens beyond the shorter answer (LD-DPO).

    ``u = sum_{t <= q} x_t + alpha sum_{t > q} x_t, x_t = log(pi_t / pi_ref_t)``.

    ``q`` = ``common_length``: response tokens of the shorter answer of the pair.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``, ``common_length`` ``[B]``.
    Writes ``score`` ``[B]``, nats, with gradient.

    Args:
        alpha: weight of the tokens beyond the shorter answer; 1 is DPO.

    Source:
        Liu et al. 2024 (LD-DPO), arXiv:2409.06411, eq. 9.
    """

    equation = "u = sum_{t <= q} x_t + {alpha} sum_{t > q} x_t, x_t = log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask", "common_length")

    def __init__(self, *, alpha: Probability = 0.5) -> None:
        super().__init__()
        self.alpha = alpha

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return length_desensitised(ratio, mask, batch["common_length"], self.alpha)

"""Log-ratio with a penalty if the chosen answer has become less likely (DPOP)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import NonNegativeFloat
from rlcomp.functional.preference_score import penalised, token_log_ratio
from rlcomp.interfaces.preference import Score


class Penalised(Score):
    """Log-ratio with a penalty if the chosen answer has become less likely (DPOP).

    ``u_w = h_w - penalty max(0, -h_w), u_l = h_l, h = sum_t log(pi_t / pi_ref_t)``.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``, ``chosen`` ``[B]``. Writes
    ``score`` ``[B]``, nats, with gradient.

    Args:
        penalty: the paper's lambda.

    Source:
        Pal et al. 2024 (Smaug), arXiv:2402.13228, eq. 3.
    """

    equation = "u = h - [chosen] {penalty} max(0, -h), h = sum_t log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask", "chosen")

    def __init__(self, *, penalty: NonNegativeFloat = 50.0) -> None:
        super().__init__()
        self.penalty = penalty

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return penalised(ratio.sum(1), batch["chosen"], self.penalty)

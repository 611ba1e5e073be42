"""Log-odds of the answer, without a reference (ORPO)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.preference_score import log_odds, over_tokens
from rlcomp.interfaces.preference import Score


class LogOdds(Score):
    """Log-odds of the answer, without a reference (ORPO).

    ``u = log(p / (1 - p)), log p = mean_t log pi_t``.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``, with gradient.

    Source:
        Hong et al. 2024 (ORPO), arXiv:2403.07691, eq. 4.
    """

    equation = "u = log(p / (1 - p)), log p = mean_t log pi_t"
    reads = ("log_probs", "response_mask")

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        return log_odds(over_tokens(batch["log_probs"], batch["response_mask"], "mean"))

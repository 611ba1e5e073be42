"""Log-ratio of the answer to the reference (DPO)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.preference_score import Length, over_tokens, token_log_ratio
from rlcomp.interfaces.preference import Score


class LogRatio(Score):
    """Log-ratio of the answer to the reference (DPO).

    ``u = sum_t log(pi_t / pi_ref_t)``.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``,
    nats, with gradient.

    Args:
        length: ``sum`` over the tokens, or their ``mean``.

    Source:
        Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7.
    """

    equation = "u = {length}_t log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask")

    def __init__(self, *, length: Length = "sum") -> None:
        super().__init__()
        self.length = length

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return over_tokens(ratio, mask, self.length)

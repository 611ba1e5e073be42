"""Score from the derivative of an f-divergence other than the reverse KL (f-DPO)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.functional.preference_score import Divergence, divergence_score, token_log_ratio
from rlcomp.interfaces.preference import Score


class DivergenceScore(Score):
    """Score from the derivative of an f-divergence other than the reverse KL (f-DPO).

    ``u = 1 - e^-h; log 2 + log s(h); (e^((alpha - 1) h) - 1) / (alpha - 1)``.

    Reads ``log_probs``, ``ref_log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``,
    nats, with gradient.

    Args:
        divergence: ``forward_kl``, ``jensen_shannon`` or ``alpha``.
        alpha: parameter of the alpha divergence, not 1.

    Raises:
        ConfigError: alpha is 1.

    Source:
        Wang et al. 2023 (f-DPO), arXiv:2309.16240, table 1.
    """

    equation = "u = f'(exp h) of {divergence} (alpha = {alpha}), h = sum_t log(pi_t / pi_ref_t)"
    reads = ("log_probs", "ref_log_probs", "response_mask")

    def __init__(self, *, divergence: Divergence = "forward_kl", alpha: float = 0.5) -> None:
        super().__init__()
        if divergence == "alpha" and alpha == 1:
            raise ConfigError(
                "DivergenceScore: alpha is 1, the reverse KL, which loss=dpo has: set another"
            )
        self.divergence = divergence
        self.alpha = alpha

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        mask = batch["response_mask"]
        ratio = token_log_ratio(batch["log_probs"], batch["ref_log_probs"], mask)
        return divergence_score(ratio.sum(1), self.divergence, self.alpha)

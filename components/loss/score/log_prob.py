"""Log-prob of the answer, without a reference (SimPO, CPO)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.functional.preference_score import Length, over_tokens, power_transform
from rlcomp.interfaces.preference import Score


class LogProb(Score):
    """Log-prob of the answer, without a reference (SimPO, CPO).

    ``u = sum_t log pi_t, or their mean a; AlphaPO: (1 - exp(-alpha a)) / alpha``.

    Reads ``log_probs``, ``response_mask`` ``[B, T]``. Writes ``score`` ``[B]``, with gradient.

    Args:
        length: ``sum`` over the tokens, or their ``mean``.
        alpha: AlphaPO's parameter; 0 is the logarithm.

    Source:
        Meng et al. 2024 (SimPO), arXiv:2405.14734, eq. 4; Xu et al. 2024 (CPO), arXiv:2401.08417,
        eq. 3; Gupta et al. 2025 (AlphaPO), arXiv:2501.03884, eq. 5.
    """

    equation = "u = {length}_t log pi_t, or at alpha = {alpha} != 0 (1 - exp(-alpha u)) / alpha"
    reads = ("log_probs", "response_mask")

    def __init__(self, *, length: Length = "sum", alpha: float = 0.0) -> None:
        super().__init__()
        self.length = length
        self.alpha = alpha

    def score(self, batch: TensorDict) -> Tensor:
        """Return the score of every row."""
        value = over_tokens(batch["log_probs"], batch["response_mask"], self.length)
        return power_transform(value, self.alpha)

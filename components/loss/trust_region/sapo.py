"""SAPO's soft gate."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.surrogate import emptied, gated_surrogate
from rlcomp.interfaces.loss import Part


class Sapo(Part):
    """``4 / tau * sigmoid(tau * (ratio - 1)) * advantage``: a slope that fades, instead of a clip.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        tau_positive: how fast the slope fades where the advantage is above 0.
        tau_negative: the same elsewhere; larger, because negative tokens raise many others.

    Source:
        Gao et al. 2025 (SAPO), arXiv:2511.20347.
    """

    reads = ("ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(
        self, *, tau_positive: PositiveFloat = 1.0, tau_negative: PositiveFloat = 1.05
    ) -> None:
        super().__init__()
        self.tau_positive = tau_positive
        self.tau_negative = tau_negative

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        ratio, advantage = emptied(batch["ratio"], batch["advantage"], batch["response_mask"])
        batch["surrogate"] = gated_surrogate(ratio, advantage, self.tau_positive, self.tau_negative)
        return batch

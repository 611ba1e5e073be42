"""SAPO: a sigmoid gate instead of the clip."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.surrogate import gated_surrogate, neutral_outside
from rlcomp.interfaces.loss import Part


class Sapo(Part):
    """SAPO: soft-gated surrogate.

    ``l_t = (4 / tau) * sigmoid(tau * (r_t - 1)) * A_t`` with ``tau = tau_positive`` if ``A_t > 0``,
    else ``tau_negative``.

    The slope in ``r_t`` is ``A_t`` at ``r_t = 1`` and decays smoothly to 0 on both sides.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        tau_positive: temperature of the gate for positive advantages.
        tau_negative: temperature for negative advantages; larger, because lowering one token raises
            many others.

    Source:
        Gao et al. 2025 (SAPO), arXiv:2511.20347.
    """

    equation = (
        "l_t = (4 / tau) sigmoid(tau (r_t - 1)) A_t, tau = {tau_positive} if A_t > 0, else "
        "{tau_negative}"
    )
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
        ratio, advantage = neutral_outside(
            batch["ratio"], batch["advantage"], batch["response_mask"]
        )
        batch["surrogate"] = gated_surrogate(ratio, advantage, self.tau_positive, self.tau_negative)
        return batch

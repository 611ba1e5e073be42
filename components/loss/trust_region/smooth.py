"""Trust regions by smooth weights."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.functional.importance import gamma_weight
from rlcomp.functional.reduction import masked
from rlcomp.functional.surrogate import gated_surrogate, neutral_outside
from rlcomp.interfaces.loss import LossPart
from rlcomp.metrics import record


class SAPO(LossPart):
    """SAPO: soft-gated surrogate.

    ``l_t = (4 / tau) * sigmoid(tau * (r_t - 1)) * A_t`` with ``tau = tau_positive`` if ``A_t > 0``,
    else ``tau_negative``.

    The slope in ``r_t`` is ``A_t`` at ``r_t = 1`` and decays smoothly to 0 on both sides.

    Reads ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes ``surrogate`` ``[B, T]``.

    Args:
        tau_positive: temperature of the gate for positive advantages.
        tau_negative: temperature of the gate for negative advantages. Lowering one token's
            probability raises many others, so the default is larger.

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


class VESPO(LossPart):
    """VESPO: log-probs weighted by a smooth, detached function of the importance ratio.

    ``l_t = sg[phi(r_t)] A_t log pi(a_t)`` with ``phi(r) = r^k exp(lambda (1 - r))``;
    ``(k, lambda)`` depends on the sign of ``A_t``.

    With ``ratio: whole_sequence`` ``r_t`` is the ratio of whole responses, as in the paper, without
    normalisation by length and without a clip. Responses far from the old policy fade out on both
    sides. The value of ``l_t`` has no meaning.

    Reads ``log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``. Writes
    ``surrogate`` ``[B, T]``. Records ``trust_region/weight``, the mean weight ``phi``.

    Args:
        shape_positive: k for ``A >= 0``: how fast small ratios fade.
        rate_positive: lambda for ``A >= 0``: how fast large ratios fade.
        shape_negative: k for ``A < 0``.
        rate_negative: lambda for ``A < 0``.

    Source:
        Shen et al. 2026 (VESPO), arXiv:2602.10693; defaults as in TRL.
    """

    equation = (
        "l_t = sg[r_t^k exp(lambda (1 - r_t))] A_t log pi(a_t), (k, lambda) = "
        "({shape_positive}, {rate_positive}) if A_t >= 0, else ({shape_negative}, {rate_negative})"
    )
    reads = ("log_probs", "ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(
        self,
        *,
        shape_positive: PositiveFloat = 2.0,
        rate_positive: PositiveFloat = 3.0,
        shape_negative: PositiveFloat = 3.0,
        rate_negative: PositiveFloat = 2.0,
    ) -> None:
        super().__init__()
        self.shape_positive = shape_positive
        self.rate_positive = rate_positive
        self.shape_negative = shape_negative
        self.rate_negative = rate_negative

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        shape = (self.shape_positive, self.shape_negative)
        weight = gamma_weight(ratio, advantage, shape, (self.rate_positive, self.rate_negative))
        batch["surrogate"] = weight * advantage * masked(batch["log_probs"], mask)
        record("trust_region/weight", weight, where=mask)
        return batch

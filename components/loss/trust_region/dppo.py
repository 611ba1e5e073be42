"""DPPO: a mask of tokens by the change of probability instead of the ratio."""

from __future__ import annotations

from typing import Literal

from tensordict import TensorDict

from rlcomp.arguments import PositiveFloat
from rlcomp.errors import ConfigError
from rlcomp.functional.binary_divergence import binary_kl, binary_total_variation
from rlcomp.functional.masked import masked
from rlcomp.functional.surrogate import neutral_outside
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class Dppo(Part):
    """DPPO: surrogate masked by the divergence of the policies instead of clipped.

    ``l_t = M_t r_t A_t`` with ``M_t = 0`` if ``D_t > delta`` and the probability has moved in the
    direction of the advantage (``A_t > 0`` and up, or ``A_t < 0`` and down), else 1. ``D_t`` is the
    divergence of the old and the current policy over the binary event "this token or another".

    A rare token can change its ratio much without moving the distribution, and a frequent one can
    move the distribution with a small change of its ratio. PPO's clip is wrong in both cases. With
    ``old_log_probs=rollout`` the divergence is to the sampling policy, as in the paper.

    Reads ``log_probs``, ``old_log_probs``, ``ratio``, ``advantage``, ``response_mask`` ``[B, T]``.
    Writes ``surrogate`` ``[B, T]``. Records the shares of tokens masked and the mean divergence.

    Args:
        divergence: ``tv``: ``D_t = |pi - pi_old|``; ``kl``: ``KL(pi_old || pi)``.
        delta: largest divergence, in probability (``tv``; below 1) or nats (``kl``).

    Raises:
        ConfigError: no total variation exceeds ``delta``.

    Source:
        Qi et al. 2026 (DPPO), arXiv:2602.04879, Binary-TV and Binary-KL; delta as in the authors'
        scripts: 0.15 (``tv``), 0.05 (``kl``).
    """

    equation = (
        "l_t = M_t r_t A_t, M_t = 0 if D_t > {delta} and A_t (pi - pi_old) > 0, else 1; "
        "D_t = {divergence} of (pi_old, pi) on this token or another"
    )
    reads = ("log_probs", "old_log_probs", "ratio", "advantage", "response_mask")
    writes = ("surrogate",)

    def __init__(
        self, *, divergence: Literal["tv", "kl"] = "tv", delta: PositiveFloat = 0.15
    ) -> None:
        super().__init__()
        if divergence == "tv" and delta >= 1:
            raise ConfigError(
                f"Dppo: delta is {delta:g}: a total variation is at most 1, so nothing would be "
                "masked; set a smaller delta, or divergence=kl"
            )
        self.divergence = divergence
        self.delta = delta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the surrogate."""
        mask = batch["response_mask"]
        ratio, advantage = neutral_outside(batch["ratio"], batch["advantage"], mask)
        new, old = masked(batch["log_probs"].detach(), mask), masked(batch["old_log_probs"], mask)
        measure = binary_kl if self.divergence == "kl" else binary_total_variation
        distance = measure(old, new)
        high = (distance > self.delta) & (advantage > 0) & (new > old)
        low = (distance > self.delta) & (advantage < 0) & (new < old)
        batch["surrogate"] = masked(ratio * advantage, ~(high | low))
        record("trust_region/clip_fraction_low", low, where=mask)
        record("trust_region/clip_fraction_high", high, where=mask)
        record("trust_region/divergence", distance, where=mask)
        return batch

"""Off-policy sequence masking (DeepSeek-V3.2)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.functional.importance import off_policy
from rlcomp.functional.masked import masked
from rlcomp.interfaces.loss import Part
from rlcomp.metrics import record


class OffPolicyMask(Part):
    """Off-policy sequence masking (DeepSeek-V3.2).

    ``c_it = 0`` if ``A_it < 0`` and ``(1 / n_i) sum_t log(pi_rollout_t / pi_t) > delta``, else 1.

    Tokens with ``A_it >= 0`` are always kept. Dropped tokens stay in the denominator of the loss.

    Reads ``log_probs``, ``rollout_log_probs`` (NaN: no gap), ``advantage``, ``response_mask``
    ``[B, T]``. Writes ``token_weight`` ``[B, T]``.

    Args:
        delta: nats per token; infinity keeps everything.

    Source:
        DeepSeek-V3.2 2025, arXiv:2512.02556, eq. 9.
    """

    equation = (
        "c_t = 0 if A_t < 0 and (1 / n) sum_t log(pi_rollout(a_t) / pi(a_t)) > {delta}, else 1"
    )
    reads = ("log_probs", "rollout_log_probs", "advantage", "response_mask")
    writes = ("token_weight",)

    def __init__(self, *, delta: NonNegativeFloat = 0.5) -> None:
        super().__init__()
        self.delta = delta

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write 1 for accepted tokens, else 0."""
        mask = batch["response_mask"]
        drop = off_policy(
            batch["log_probs"], batch["rollout_log_probs"], batch["advantage"], mask, self.delta
        )
        record("weight/dropped_off_policy", drop, where=mask)
        batch["token_weight"] = masked((~drop).to(batch["log_probs"].dtype), mask)
        return batch

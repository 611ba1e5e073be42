"""Self-normalised truncated importance sampling (normalised TIS)."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from components.loss.weight.truncated import TruncatedWeight
from rlcomp.functional.importance import normaliser


class SelfNormalisedWeight(TruncatedWeight):
    """Self-normalised truncated importance sampling.

    ``c_t = w_t / mean(w)`` with ``w_t`` of :class:`TruncatedWeight`.

    The mean is over all tokens of the optimiser step at token level, and over its sequences at the
    sequence levels.

    Reads ``old_log_probs``, ``rollout_log_probs``, ``response_mask`` ``[B, T]``. Writes
    ``token_weight`` ``[B, T]``.

    Source:
        Owen 2013, "Monte Carlo theory", section 9.2.
    """

    keys = {"weight_scale": ("B", "float", "normaliser of importance weights, for the whole step")}
    equation = (
        "c_t = rho'_t / mean(rho'), rho'_t = clip(rho_t, {floor}, {cap}), rho_t = pi_old / "
        "pi_rollout ({level})"
    )
    step_keys = ("weight_scale",)
    needs_forward = False

    def prepare(self, batch: TensorDict) -> TensorDict:
        """Return the mean weight, ``[B]``, the same for all rows."""
        mask = batch["response_mask"]
        scale = normaliser(super()._weight(batch), mask, self.level)
        return batch.select().set("weight_scale", scale.expand(len(mask)))

    def _weight(self, batch: TensorDict) -> Tensor:
        scale: Tensor = self.prepared(batch)["weight_scale"]
        return super()._weight(batch) / scale[:, None]

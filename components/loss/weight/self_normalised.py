"""Truncated importance weights over their mean."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from components.loss.weight.truncated import TruncatedWeight
from rlcomp.functional.importance import normaliser


class SelfNormalisedWeight(TruncatedWeight):
    """:class:`TruncatedWeight` over the mean weight of the whole optimiser step.

    The mean is over tokens at the level of tokens, over sequences at that of sequences.

    Reads ``old_log_probs``, ``rollout_log_probs``, ``response_mask`` ``[B, T]``. Writes
    ``token_weight`` ``[B, T]``.

    Source:
        Owen 2013, "Monte Carlo theory", section 9.2.
    """

    prepares = ("weight_scale",)
    from_model = False

    def prepare(self, batch: TensorDict) -> TensorDict:
        """The mean weight, ``[B]``, the same for all rows."""
        mask = batch["response_mask"]
        scale = normaliser(super()._weight(batch), mask, self.level)
        return batch.select().set("weight_scale", scale.expand(len(mask)))

    def _weight(self, batch: TensorDict) -> Tensor:
        scale: Tensor = self.prepared(batch)["weight_scale"]
        return super()._weight(batch) / scale[:, None]

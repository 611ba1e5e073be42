"""Frozen reference policy: a copy of the policy at the start of the phase."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict

from rlcomp.component import Component
from rlcomp.interfaces.policy import ScoresRows
from rlcomp.keys import Key
from rlcomp.metrics import record
from rlcomp.model.copied import CopiedWeights


class Frozen(Component):
    """Frozen reference policy: the weights at the start of the phase.

    Only the policy's trainable parameters are copied, and the policy's own model runs with the copy
    swapped in. So a reference never costs a second model; with adapters it costs their size.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Records ``kl/reference`` if the rows are rollouts: the mean of
    ``rollout_log_probs - ref_log_probs``, nats per token (the estimator k1).

    Args:
        policy: the model to stay close to.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs",)

    policy: ScoresRows

    def __init__(self, *, policy: ScoresRows) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.copied = CopiedWeights(policy)

    def begin_phase(self) -> None:
        """Take a new copy."""
        self.copied.take()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens with the copied weights."""
        with torch.no_grad():
            ref_log_probs = self.policy.log_probs(batch, self.copied.weights())
        batch["ref_log_probs"] = ref_log_probs
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - ref_log_probs
            record("kl/reference", distance, where=batch["response_mask"])
        return batch

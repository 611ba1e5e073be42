"""The sampler's log-probs as old log-probs (bypass mode)."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component


class FromRollout(Component):
    """Stage that copies ``rollout_log_probs`` to ``old_log_probs``, without a forward pass.

    This is exact if sampler and trainer share engine and weights.

    Reads ``rollout_log_probs`` ``[B, T]``. Writes ``old_log_probs`` ``[B, T]``.
    """

    reads = ("rollout_log_probs",)
    writes = ("old_log_probs",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-probs that the sampler recorded."""
        batch["old_log_probs"] = batch["rollout_log_probs"].detach()
        return batch

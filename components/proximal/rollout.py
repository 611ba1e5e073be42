"""The sampler's own log-probs as the old policy."""

from __future__ import annotations

from tensordict import TensorDict

from rlcomp.component import Component


class FromRollout(Component):
    """``old_log_probs = rollout_log_probs``: exact here, and free.

    Reads ``rollout_log_probs`` ``[B, T]``. Writes ``old_log_probs`` ``[B, T]``.
    """

    reads = ("rollout_log_probs",)
    writes = ("old_log_probs",)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-probs that generation recorded."""
        batch["old_log_probs"] = batch["rollout_log_probs"]
        return batch

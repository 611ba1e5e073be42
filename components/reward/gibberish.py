"""Gibberish penalty on responses of very low likelihood."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from rlcomp.arguments import NonNegativeFloat
from rlcomp.component import Component
from rlcomp.interfaces.reward import write_reward


class Gibberish(Component):
    """Gibberish penalty by the mean log-probability.

    ``R = -penalty`` if ``(1 / T) sum_t log pi(y_t) < below`` under the sampling policy, else 0. An
    empty response cannot be judged.

    Reads ``rollout_log_probs``, ``response_mask`` ``[B, T]``. Writes ``reward``, float32 ``[B]``,
    ``rewards`` (``{"gibberish": [B]}``), ``correct`` (no gibberish) and ``reward_valid``. Records
    the metrics of :func:`rlcomp.interfaces.reward.write_reward`.

    Args:
        below: threshold of the mean log-probability of a token, in nats; a uniform choice among V
            tokens has -log V.
        penalty: size of the penalty, in reward units.
    """

    reads = ("rollout_log_probs", "response_mask")
    optional = ("episode_error",)
    writes = ("reward", "rewards", "correct", "reward_valid")
    is_free = True

    def __init__(self, *, below: float, penalty: NonNegativeFloat = 1.0) -> None:
        super().__init__()
        self.below = below
        self.penalty = penalty

    def forward(self, batch: TensorDict) -> TensorDict:
        """Judge every response."""
        mask = batch["response_mask"]
        total = torch.where(mask, batch["rollout_log_probs"], 0.0).sum(1)
        fluent = total >= self.below * mask.sum(1)
        reward = torch.where(fluent, 0.0, -self.penalty)
        return write_reward(
            batch, reward, {"gibberish": reward}, fluent, mask.any(1), decides=False
        )

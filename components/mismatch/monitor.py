"""Sampler-trainer mismatch: recorded log-probs against those of the trainer, with a limit."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat
from rlcomp.component import Component
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.functional.importance import sampler_gap
from rlcomp.functional.mismatch import effective_sample_size
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import record


class MismatchMonitor(Component):
    """Sampler-trainer mismatch of a batch: ``d_t = log pi_old(a_t) - log pi_rollout(a_t)``.

    Over the response tokens whose log-prob the sampler recorded it records ``mismatch/mean`` and
    ``mismatch/max`` of ``|d_t|`` (nats), ``mismatch/above_1_nat``, the share of tokens with
    ``|d_t| > 1``, and ``mismatch/ess``, the effective sample size of the weights ``exp(d_t)`` as a
    share of the tokens.

    Reads ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs``,
    ``old_log_probs`` ``[B, T]``. Writes nothing.

    Args:
        policy: its log-probs are computed, by a forward pass; null: ``old_log_probs`` are those of
            the trainer (``old_log_probs=recomputed``).
        max_mean_gap: a mean above it stops the run, nats; null: no limit.

    Raises:
        ConfigError: ``policy`` is null, but ``old_log_probs`` are the sampler's own.
        NumericalError: the mean is above its limit, or a log-prob is not finite.

    Source:
        Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training";
        Kong 1992 (effective sample size).
    """

    reads = ("tokens", "attention_mask", "response_mask", "rollout_log_probs", "old_log_probs")

    def __init__(
        self, *, policy: Policy | None = None, max_mean_gap: PositiveFloat | None = 0.1
    ) -> None:
        super().__init__()
        self.policy = policy
        self.max_mean_gap = max_mean_gap

    def forward(self, batch: TensorDict) -> TensorDict:
        """Record the mismatch; stop where it is too large."""
        mask = batch["response_mask"] & ~batch["rollout_log_probs"].isnan()
        gap = sampler_gap(self._of_trainer(batch), batch["rollout_log_probs"], mask)[mask]
        if not gap.numel():
            return batch
        size = gap.abs()
        record("mismatch/mean", size)
        record("mismatch/max", size.max())
        record("mismatch/above_1_nat", (size > 1).float())
        record("mismatch/ess", effective_sample_size(gap))
        mean = float(size.double().mean())
        if self.max_mean_gap is not None and mean > self.max_mean_gap:
            raise NumericalError(
                f"sampler and trainer differ by {mean:.3g} nats a token (largest "
                f"{float(size.max()):.3g}), mismatch.max_mean_gap is {self.max_mean_gap:g}: give "
                "both the same weights, decoding and precision, or correct for it "
                "(old_log_probs=recomputed loss/weight=tis); mismatch.max_mean_gap=null goes on"
            )
        return batch

    def _of_trainer(self, batch: TensorDict) -> Tensor:
        if self.policy is not None:
            with torch.no_grad():
                return self.policy.log_probs(batch)
        old: Tensor = batch["old_log_probs"]
        if old.data_ptr() == batch["rollout_log_probs"].data_ptr():
            raise ConfigError(
                "mismatch.policy is null, but old_log_probs are the sampler's own, which differ "
                "from themselves by nothing: use mismatch=monitor, or old_log_probs=recomputed"
            )
        return old

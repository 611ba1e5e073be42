"""Monitor of the mismatch between the sampler's and the trainer's log-probs."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveFloat, PositiveInt
from rlcomp.checkpoint.state_fields import count_field
from rlcomp.component import Component
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.functional.importance import sampler_gap
from rlcomp.functional.ratio import effective_sample_size, sampler_kl
from rlcomp.interfaces.policy import Policy
from rlcomp.metrics import record


class MismatchMonitor(Component):
    """Monitor of the sampler-trainer mismatch ``d_t = log pi_old(a_t) - log pi_rollout(a_t)``.

    Records, over the response tokens whose log-prob the sampler recorded, ``mismatch/mean`` and
    ``mismatch/max`` of ``|d_t|`` (nats); ``mismatch/above_1_nat``, the share of tokens with
    ``|d_t| > 1``; ``mismatch/k3``, the mean of ``exp(d_t) - 1 - d_t``, an estimate of
    ``KL(pi_rollout || pi_old)`` (nats per token); and ``mismatch/ess``, the effective sample size
    of the weights ``exp(d_t)`` as a share of the tokens. A batch without such tokens records
    nothing and does not count as a step.

    Reads ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs``,
    ``old_log_probs`` ``[B, T]``, and ``policy_version`` ``[B, T]`` for the message. Writes nothing.

    Args:
        policy: the trainer's policy; a forward pass computes its log-probs. Null: ``old_log_probs``
            are the trainer's log-probs (``old_log_probs=recomputed``).
        max_mean_gap: a step is bad if the mean of ``|d_t|`` is above this value, nats; null: no
            step is bad.
        patience: number of successive bad steps that stops the run.

    Raises:
        ConfigError: ``policy`` is null, but ``old_log_probs`` are the sampler's own.
        NumericalError: ``patience`` successive steps were bad, or a log-prob is not finite.

    Source:
        Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training";
        Schulman 2020, "Approximating KL divergence" (k3); Kong 1992 (effective sample size).
    """

    reads = ("tokens", "attention_mask", "response_mask", "rollout_log_probs", "old_log_probs")
    optional = ("policy_version",)

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        max_mean_gap: PositiveFloat | None = 0.1,
        patience: PositiveInt = 3,
    ) -> None:
        super().__init__()
        self.policy = policy
        self.max_mean_gap = max_mean_gap
        self.patience = patience
        self.bad_steps = 0

    def forward(self, batch: TensorDict) -> TensorDict:
        """Record the mismatch; stop the run after too many bad steps."""
        mask = batch["response_mask"] & ~batch["rollout_log_probs"].isnan()
        gap = sampler_gap(self._trainer_log_probs(batch), batch["rollout_log_probs"], mask)[mask]
        if not gap.numel():
            return batch
        size = gap.abs()
        record("mismatch/mean", size)
        record("mismatch/max", size.max())
        record("mismatch/above_1_nat", (size > 1).float())
        record("mismatch/k3", sampler_kl(gap))
        record("mismatch/ess", effective_sample_size(gap))
        self._count_bad_steps(float(size.double().mean()), float(size.max()), batch)
        return batch

    def _count_bad_steps(self, mean: float, largest: float, batch: TensorDict) -> None:
        """Count successive bad steps.

        Raises:
            NumericalError: ``patience`` successive steps were bad.
        """
        if self.max_mean_gap is None:
            return
        self.bad_steps = self.bad_steps + 1 if mean > self.max_mean_gap else 0
        if self.bad_steps >= self.patience:
            raise NumericalError(
                f"sampler and trainer differ by {mean:.3g} nats per token (largest {largest:.3g}), "
                f"and in {self.bad_steps} steps in a row by more than mismatch.max_mean_gap, "
                f"{self.max_mean_gap:g}. Likely causes: log-probs without the temperature (vLLM "
                "needs --logprobs-mode processed_logprobs), truncated sampling whose sets are not "
                f"replayed, weights of another version{_versions(batch)}, another chat template or "
                "BOS, or another precision. Remove the cause, correct the mismatch "
                "(old_log_probs=recomputed loss/weight=tis), or continue with "
                "mismatch.max_mean_gap=null"
            )

    def run_state(self) -> dict[str, Any]:
        """Return the number of successive bad steps."""
        return {"bad_steps": self.bad_steps}

    def load_run_state(self, state: dict[str, Any]) -> None:
        """Restore the number of successive bad steps."""
        self.bad_steps = count_field(state, "bad_steps")

    def _trainer_log_probs(self, batch: TensorDict) -> Tensor:
        """Return the trainer's log-probs, ``[B, T]``.

        Raises:
            ConfigError: ``policy`` is null, but ``old_log_probs`` are the sampler's own.
        """
        if self.policy is not None:
            with torch.no_grad():
                return self.policy.log_probs(batch)
        old: Tensor = batch["old_log_probs"]
        # ``old_log_probs=rollout`` copies no memory.
        if old.data_ptr() == batch["rollout_log_probs"].data_ptr():
            raise ConfigError(
                "mismatch.policy is null and old_log_probs are the sampler's own, so that the "
                "mismatch would always be 0: use mismatch=monitor, or old_log_probs=recomputed"
            )
        return old


def _versions(batch: TensorDict) -> str:
    """Return the versions of the weights that sampled, as text; empty if they are unknown."""
    if "policy_version" not in batch.keys():
        return ""
    versions = batch["policy_version"][batch["response_mask"]]
    return f" (these rows: {int(versions.min())} to {int(versions.max())})"

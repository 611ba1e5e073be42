"""References with weights of the policy's past."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt, Probability
from rlcomp.component import Component
from rlcomp.interfaces.policy import FullDistributionPolicy, ScoresRows
from rlcomp.keys import Key
from rlcomp.metrics import record
from rlcomp.model.weight_snapshot import CopiedWeights


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


class FrozenFull(Frozen):
    """Frozen reference for a full-vocabulary KL; costs a second forward pass.

    Memory: ``ref_log_distribution`` holds ``B * T * V`` numbers during the whole step.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient.

    Args:
        policy: the model to stay close to.
    """

    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy) -> None:
        super().__init__(policy=policy)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the log-probs of the response tokens and of the whole vocabulary."""
        batch = super().forward(batch)
        with torch.no_grad():
            weights = self.copied.weights()
            batch["ref_log_distribution"] = self.policy.log_distribution(batch, weights)
        return batch


class Refreshed(Frozen):
    """Refreshed reference policy (TR-DPO).

    ``theta_ref <- alpha * theta + (1 - alpha) * theta_ref`` every ``period`` batches, with
    ``alpha`` = ``mix``.

    The KL then limits the speed of the policy, not its distance.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Args:
        policy: the model to stay close to.
        period: batches between two refreshments.
        mix: share of the policy; 1 copies the policy.

    Source:
        Gorbatovski et al. 2024 (TR-DPO), arXiv:2404.09656, eqs. 5 and 6.
    """

    calls: Tensor

    def __init__(
        self, *, policy: ScoresRows, period: PositiveInt = 512, mix: Probability = 0.6
    ) -> None:
        super().__init__(policy=policy)
        self.period = period
        self.mix = mix
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def begin_phase(self) -> None:
        """Take a new copy and set the count to 0."""
        super().begin_phase()
        self.calls.zero_()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Refresh the copy after every ``period`` training batches, then score."""
        if self.training:  # evaluators' scoring must not refresh it
            if int(self.calls) and int(self.calls) % self.period == 0:
                self.copied.follow(self.mix)
            self.calls += 1
        return super().forward(batch)


class RefreshedFull(Refreshed, FrozenFull):
    """Reference that follows the policy slowly, with full distributions (mean teacher).

    ``theta_ref <- alpha * theta + (1 - alpha) * theta_ref`` every ``period`` batches, with
    ``alpha`` = ``mix``.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient.

    Args:
        policy: the model that it follows.
        period: batches between two refreshments.
        mix: share of the policy; 1 copies the policy.

    Source:
        Tarvainen & Valpola 2017 (mean teacher), arXiv:1703.01780.
    """

    writes = ("ref_log_probs", "ref_log_distribution")

    def __init__(
        self, *, policy: FullDistributionPolicy, period: PositiveInt = 1, mix: Probability = 0.01
    ) -> None:
        super().__init__(policy=policy, period=period, mix=mix)


class LiveFull(Component):
    """Live reference: the current weights of the policy, with full next-token distributions.

    It serves as a control: a teacher of itself drifts with its student and collapses.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there.

    Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution`` ``[B, T, V]``, nats, without
    gradient. Records ``kl/reference`` if the rows are rollouts: the mean of ``rollout_log_probs -
    ref_log_probs``, nats per token.

    Args:
        policy: the model.
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional = ("rollout_log_probs",)
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens with the current weights."""
        with torch.no_grad():
            batch["ref_log_probs"] = self.policy.log_probs(batch)
            batch["ref_log_distribution"] = self.policy.log_distribution(batch)
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - batch["ref_log_probs"]
            record("kl/reference", distance, where=batch["response_mask"])
        return batch

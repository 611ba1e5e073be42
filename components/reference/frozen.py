"""References with the policy's own weights: past, moving or current."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.arguments import PositiveInt, Probability
from rlcomp.interfaces.policy import FullDistributionPolicy, ScoresRows
from rlcomp.interfaces.reference import Reference, full_distribution_policy
from rlcomp.keys import Key
from rlcomp.model.weight_snapshot import WeightSnapshot


class FrozenReference(Reference):
    """Frozen reference policy: the weights at the start of the phase.

    Only the policy's trainable parameters are copied, and the policy's own model runs with the copy
    swapped in. So a reference never costs a second model; with adapters it costs their size.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, and with
    ``full`` ``ref_log_distribution`` ``[B, T, V]``.

    Args:
        policy: the model to stay close to.
        full: whether the log-probs of all tokens are written too. It costs a second forward pass
            and ``B * T * V`` numbers during the whole step.

    Raises:
        ConfigError: ``full`` is true and the policy has no ``log_distribution``.
    """

    writes_if: ClassVar[dict[str, tuple[Key, ...]]] = {"full": ("ref_log_distribution",)}

    policy: ScoresRows

    def __init__(self, *, policy: ScoresRows, full: bool = False) -> None:
        super().__init__()
        if full:
            full_distribution_policy("policy", policy)
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.full = full
        self.copied = WeightSnapshot(policy)

    def begin_phase(self) -> None:
        """Take a new copy."""
        self.copied.take()

    def log_probs(self, batch: TensorDict) -> Tensor:
        """Return the log-prob of each response token under the copied weights."""
        return self.policy.log_probs(batch, self.copied.weights())

    def log_distribution(self, batch: TensorDict) -> Tensor:
        """Return the log-probs of all tokens under the copied weights."""
        policy = full_distribution_policy("policy", self.policy)
        return policy.log_distribution(batch, self.copied.weights())


class RefreshedReference(FrozenReference):
    """Reference policy that follows the policy: TR-DPO, or a mean teacher.

    ``theta_ref <- alpha * theta + (1 - alpha) * theta_ref`` every ``period`` batches, with
    ``alpha`` = ``mix``.

    The KL then limits the speed of the policy, not its distance.

    Reads and writes the entries of :class:`FrozenReference`.

    Args:
        policy: the model to stay close to.
        period: batches between two refreshments.
        mix: share of the policy; 1 copies the policy.
        full: whether the log-probs of all tokens are written too.

    Source:
        Gorbatovski et al. 2024 (TR-DPO), arXiv:2404.09656, eqs. 5 and 6; Tarvainen & Valpola 2017
        (mean teacher), arXiv:1703.01780.
    """

    calls: Tensor

    def __init__(
        self,
        *,
        policy: ScoresRows,
        period: PositiveInt = 512,
        mix: Probability = 0.6,
        full: bool = False,
    ) -> None:
        super().__init__(policy=policy, full=full)
        self.period = period
        self.mix = mix
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def begin_phase(self) -> None:
        """Take a new copy and set the count to 0."""
        super().begin_phase()
        self.calls.zero_()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Refresh the copy after every ``period`` training batches, then score."""
        if self.training:  # an evaluator's batch must not refresh the copy
            if int(self.calls) and int(self.calls) % self.period == 0:
                self.copied.follow(self.mix)
            self.calls += 1
        return super().forward(batch)


class LiveReference(Reference):
    """Live reference: the current weights of the policy, with log-probs of all tokens.

    It serves as a control: a teacher of itself drifts with its student and collapses.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there. Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution``
    ``[B, T, V]``, nats, without gradient.

    Args:
        policy: the model.
    """

    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    policy: FullDistributionPolicy

    def __init__(self, *, policy: FullDistributionPolicy) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def log_probs(self, batch: TensorDict) -> Tensor:
        """Return the log-prob of each response token under the current weights."""
        return self.policy.log_probs(batch)

    def log_distribution(self, batch: TensorDict) -> Tensor:
        """Return the log-probs of all tokens under the current weights."""
        return self.policy.log_distribution(batch)

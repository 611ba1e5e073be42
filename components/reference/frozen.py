"""References with the policy's past, moving, current or base weights, or with another model."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedModel

from rlcomp.arguments import PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import FullDistributionPolicy, Policy, ScoresRows
from rlcomp.interfaces.reference import Reference, full_distribution_policy
from rlcomp.keys import Key
from rlcomp.model.adapters import adapters_off, has_adapters
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.weight_snapshot import WeightSnapshot


class FrozenReference(Reference):
    """Frozen reference policy: the weights at the start of the phase.

    Only the policy's trainable parameters are copied, and the policy's own model runs with the
    copy. So the reference needs no second model, only a copy of the trainable parameters.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if present. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, and with
    ``full`` ``ref_log_distribution`` ``[B, T, V]``.

    Args:
        policy: the trained policy.
        full: whether the log-probs of all tokens are written too, at the cost of a second forward
            pass and of ``B * T * V`` numbers during the whole step.

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
        """Copy the current weights."""
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
    ``alpha`` = ``mix``. The KL then bounds the policy's change per period, not its distance from
    the initial weights.

    Reads and writes the entries of :class:`FrozenReference`.

    Args:
        policy: the trained policy.
        period: batches between two updates of the reference.
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
        """Copy the current weights and set the count of batches to 0."""
        super().begin_phase()
        self.calls.zero_()

    def forward(self, batch: TensorDict) -> TensorDict:
        """Update the copy after every ``period`` training batches, then score."""
        if self.training:  # an evaluator's batch must not update the copy
            if int(self.calls) and int(self.calls) % self.period == 0:
                self.copied.follow(self.mix)
            self.calls += 1
        return super().forward(batch)


class LiveReference(Reference):
    """Live reference: the current weights of the policy, with log-probs of all tokens.

    This is a control: a policy that is its own teacher drifts and collapses.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if present. Writes ``ref_log_probs`` ``[B, T]`` and ``ref_log_distribution``
    ``[B, T, V]``, nats, without gradient.
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


class AdapterOffReference(Reference):
    """Reference policy: the policy's base model, without extra memory, by disabling the adapters.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if present. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Args:
        policy: a model with adapters.

    Raises:
        ConfigError: the policy has no adapters.
    """

    policy: LanguageModel

    def __init__(self, *, policy: LanguageModel) -> None:
        super().__init__()
        if not has_adapters(policy.model):
            raise ConfigError(
                "reference: the policy has no adapters to disable: set adapter=lora or "
                "reference=frozen"
            )
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def log_probs(self, batch: TensorDict) -> Tensor:
        """Return the log-prob of each response token under the base model."""
        # Recorded expert routes belong to the policy's weights; another model takes its own.
        with adapters_off(self.policy.model):
            return self.policy.log_probs(batch.exclude("routed_experts"))


class PretrainedReference(Reference):
    """Reference policy: another frozen model with the policy's tokenizer, such as a base model.

    It costs a second model in memory and in checkpoints.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if present. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, under
    the policy's decoding.

    Args:
        policy: the policy, whose tokenizer and decoding the reference shares.
        model: a model with the policy's vocabulary.
    """

    policy: Policy

    def __init__(self, *, policy: Policy, model: PreTrainedModel) -> None:
        super().__init__()
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        self.model = model.requires_grad_(False)
        self.scorer = LanguageModel(
            model=model, tokenizer=policy.tokenizer, decoding=policy.decoding
        )

    def log_probs(self, batch: TensorDict) -> Tensor:
        """Return the log-prob of each response token under the other model."""
        # As in AdapterOffReference, without the policy's expert routes.
        return self.scorer.log_probs(batch.exclude("routed_experts"))

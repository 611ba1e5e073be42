"""Base class of references: policies that score the response tokens of a batch."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.interfaces.policy import FullDistributionPolicy
from rlcomp.keys import Key
from rlcomp.metrics import record


class Reference(Component):
    """Base class of stages that score a batch with a reference policy.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if present. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient. A
    subclass that declares ``ref_log_distribution`` overrides :meth:`log_distribution`.

    Records ``kl/reference`` if the rows are rollouts: the mean of
    ``rollout_log_probs - ref_log_probs``, nats per token (the estimator k1).
    """

    reads = ("tokens", "attention_mask", "response_mask")
    optional: ClassVar[tuple[Key, ...]] = ("rollout_log_probs",)
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs",)

    @abstractmethod
    def log_probs(self, batch: TensorDict) -> Tensor:
        """Return the reference's log-prob of each response token, ``[B, T]``, nats."""

    def log_distribution(self, batch: TensorDict) -> Tensor:
        """Return the reference's log-probs of all tokens, ``[B, T, V]``, nats."""
        raise NotImplementedError

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens."""
        with torch.no_grad():
            batch["ref_log_probs"] = self.log_probs(batch)
            if "ref_log_distribution" in self.writes:
                batch["ref_log_distribution"] = self.log_distribution(batch)
        if "rollout_log_probs" in batch.keys():
            distance = batch["rollout_log_probs"] - batch["ref_log_probs"]
            record("kl/reference", distance, where=batch["response_mask"])
        return batch


def full_distribution_policy(argument: str, policy: object) -> FullDistributionPolicy:
    """Return a policy that gives log-probs of all tokens.

    Args:
        argument: the path of the policy in the config, for the message.
        policy: checked for ``log_distribution``.

    Raises:
        ConfigError: the policy has no ``log_distribution``.
    """
    if not isinstance(policy, FullDistributionPolicy):
        raise ConfigError(
            f"{argument} is a {type(policy).__name__}, which has no log_distribution: set "
            "reference.full=false, or use a LanguageModel"
        )
    return policy

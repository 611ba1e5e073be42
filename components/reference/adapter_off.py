"""Reference policy: the policy's base model with its adapters disabled."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.interfaces.reference import Reference
from rlcomp.model.adapters import adapters_off, has_adapters
from rlcomp.model.language_model import LanguageModel


class AdapterOffReference(Reference):
    """Reference policy: the base model, without extra memory, by disabling the adapters.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

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
                "reference: the policy has no adapters to switch off: use adapter=lora or "
                "reference=frozen"
            )
        # Not a submodule: the policy owns its tensors in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)

    def log_probs(self, batch: TensorDict) -> Tensor:
        """Return the log-prob of each response token under the base model."""
        with adapters_off(self.policy.model):
            return self.policy.log_probs(batch.exclude("routed_experts"))

"""A copy of the policy as the phase began."""

from __future__ import annotations

from typing import ClassVar

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.component import Component
from rlcomp.keys import Key
from rlcomp.model.language_model import LanguageModel
from rlcomp.run.record import record


class Frozen(Component):
    """The policy with the weights it had when the phase began.

    Only the policy's trainable parameters are copied, and the policy's own model runs with them
    swapped in: with adapters the reference costs the adapters, never a second model.

    Reads ``tokens``, ``attention_mask``, ``response_mask``, ``rollout_log_probs`` ``[B, T]``.

    Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient.

    Records ``kl/reference``: mean of ``rollout_log_probs - ref_log_probs``, nats a token (the
    estimator k1).

    Args:
        policy: the model to stay close to.
    """

    reads = ("tokens", "attention_mask", "response_mask", "rollout_log_probs")
    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs",)

    policy: LanguageModel

    def __init__(self, *, policy: LanguageModel) -> None:
        super().__init__()
        # Past nn.Module: the policy's tensors belong to the policy, in checkpoints and optimizers.
        object.__setattr__(self, "policy", policy)
        for name, parameter in self._trainable().items():
            self.register_buffer(_buffer(name), parameter.detach().clone())

    def begin_phase(self) -> None:
        """Take a fresh copy."""
        copies = self._copies()
        for name, parameter in self._trainable().items():
            copies[name].copy_(parameter.detach())

    def _copies(self) -> dict[str, Tensor]:
        """The copied weights, under the names of the policy's parameters."""
        return {name: self.get_buffer(_buffer(name)) for name in self._trainable()}

    def forward(self, batch: TensorDict) -> TensorDict:
        """Score the response tokens with the copied weights."""
        with torch.no_grad():
            ref_log_probs = self.policy.log_probs(batch, self._copies())
        batch["ref_log_probs"] = ref_log_probs
        distance = batch["rollout_log_probs"] - ref_log_probs
        record("kl/reference", distance, where=batch["response_mask"])
        return batch

    def _trainable(self) -> dict[str, Tensor]:
        """The parameters of the policy's model that training changes; tied ones once."""
        parameters = self.policy.model.named_parameters()
        return {name: value for name, value in parameters if value.requires_grad}


def _buffer(name: str) -> str:
    # A buffer's name must not hold a dot.
    return name.replace(".", "/")

"""Reference policy from a folder or a run, such as the base model of the training."""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedModel

from rlcomp.interfaces.policy import Policy
from rlcomp.interfaces.reference import Reference
from rlcomp.model.language_model import LanguageModel


class PretrainedReference(Reference):
    """Reference policy: another model with the policy's tokenizer, frozen.

    It costs a second model in memory and in checkpoints; ``reference=frozen`` costs only the
    trained weights.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``, and ``rollout_log_probs``
    ``[B, T]`` if it is there. Writes ``ref_log_probs`` ``[B, T]``, nats, without gradient, under
    the policy's decoding.

    Args:
        policy: the policy, for its tokenizer and its decoding.
        model: the model that scores the responses; it has the policy's vocabulary.
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
        return self.scorer.log_probs(batch.exclude("routed_experts"))

"""A copy of a policy that is trained apart from it, such as an implicit reward model."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from rlcomp.model.language_model import LanguageModel


class PolicyCopy(LanguageModel):
    """A second language model that starts from the weights of the policy.

    The copy is taken when the first phase with it begins: of a fine-tuned policy, where that phase
    finds it. From then on the two are apart.

    Reads and writes what :class:`rlcomp.model.language_model.LanguageModel` does.

    Args:
        policy: its model is copied; tokenizer, decoding and engine are its own.
    """

    policy: LanguageModel
    started: Tensor

    def __init__(self, *, policy: LanguageModel) -> None:
        super().__init__(
            model=copy.deepcopy(policy.model),
            tokenizer=policy.tokenizer,
            decoding=policy.decoding,
            engine=policy.engine,
        )
        # Past nn.Module: the policy's tensors belong to the policy.
        object.__setattr__(self, "policy", policy)
        self.generation.stops = policy.stops
        # A buffer, so that a run that is continued does not start over.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def begin_phase(self) -> None:
        """Copy the policy's current weights, once."""
        if not bool(self.started):
            self.model.load_state_dict(self.policy.model.state_dict())
            self.started.fill_(True)
            self.updated()

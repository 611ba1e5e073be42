"""Copy of a policy that is trained separately from it, such as an implicit reward model."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from rlcomp.model.language_model import LanguageModel


class PolicyCopy(LanguageModel):
    """A second language model that starts from the weights of the policy.

    The copy is made when the first phase with it begins, from the policy as it is then (fine-tuned,
    for instance). From then on the two are separate.

    Reads and writes the entries of :class:`rlcomp.model.language_model.LanguageModel`.

    Args:
        policy: its model is copied; its tokenizer, decoding and engine are used.
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
        # Not registered in nn.Module: the policy's tensors belong to the policy.
        object.__setattr__(self, "policy", policy)
        self.generation.stops = policy.stops
        # A buffer, so that a continued run does not start over.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def begin_phase(self) -> None:
        """Copy the policy's current weights, once."""
        if not bool(self.started):
            self.model.load_state_dict(self.policy.model.state_dict())
            self.started.fill_(True)
            self.updated()

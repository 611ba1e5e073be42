"""Critic with a separate backbone."""

from __future__ import annotations

import copy

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedModel

from rlcomp.component import Component
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.engine.transformer import Transformer
from rlcomp.model.token_rows import token_rows
from rlcomp.model.value_head import ValueHead, parted, read_values
from rlcomp.parallel.ranks import here, ranks
from rlcomp.parallel.scoring import score_on_ranks


class Critic(Component):
    """Separate critic: a copy of a language model's backbone with a value head.

    The copy is made when the first phase with the critic begins. Given the policy's model, it then
    starts from the policy after a warm start. From then on the two are separate.

    Like a policy it stays in eval mode, even while it is trained.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes ``value`` ``[B, T]``, in reward units: the value of the state before the token, read from
    the hidden state of the previous token; 0 at t = 0 and outside ``response_mask``.

    Args:
        model: a causal model of transformers; it is not changed.
        engine: the compute engine of the backbone.

    Source:
        Stiennon et al. 2020, arXiv:2009.01325: policy and critic share no weights (theirs starts
        from the reward model).
    """

    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("value",)

    model: PreTrainedModel
    started: Tensor
    _transformer: Transformer | None

    def __init__(self, *, model: PreTrainedModel, engine: Engine = AUTO) -> None:
        super().__init__()
        # Not registered in nn.Module: the model's tensors belong to its owner.
        object.__setattr__(self, "model", model)
        self.backbone = copy.deepcopy(model.get_decoder()).eval()
        self.engine = engine
        object.__setattr__(self, "_transformer", engine.backbone(model, self.backbone))
        self.value_head = ValueHead(model)
        # A buffer, so that a continued run does not start over.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def train(self, mode: bool = True) -> Critic:
        """Set this module's flag; the backbone itself stays in eval mode."""
        super().train(mode)
        self.backbone.eval()
        return self

    @property
    def packs(self) -> bool:
        """Return whether the forward uses packed sequences with shared prompts."""
        return self._transformer is not None

    def begin_phase(self) -> None:
        """Copy the model's current weights, once."""
        if not bool(self.started):
            self.backbone.load_state_dict(self.model.get_decoder().state_dict())
            self.started.fill_(True)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values, with gradient where gradients are enabled."""
        batch["value"] = self.values(batch)
        return batch

    def values(self, batch: TensorDict) -> Tensor:
        """Compute values of a batch, shape ``[B, T]``, in reward units."""
        shared = None if torch.is_grad_enabled() else ranks()
        if shared is not None and shared.holds(self):
            columns = token_rows(type(self).__name__, batch)
            values: Tensor = shared.together(self, "values_together", columns)
            return values.to(batch["tokens"].device)
        return self._values(batch)

    def _values(self, batch: TensorDict) -> Tensor:
        return read_values(self.backbone, self._transformer, self.value_head, batch)

    def values_together(self, rows: TensorDict) -> Tensor:
        """Compute values without gradient; each rank reads a part of the rows."""
        return score_on_ranks(
            here(), self, rows.to(self.value_head.weight.device), parted, Critic._values
        )

"""Critics of language models: a separate one, and a value head on the policy."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.component import is_loss_input
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.interfaces.sampler_engine import SamplerEngine
from rlcomp.model.backbone import BackboneCopy, read_values, split_rows, spread_values, token_rows
from rlcomp.model.language_model import LanguageModel
from rlcomp.parallel.load_balancing import score_on_ranks
from rlcomp.parallel.ranks import ranks


class ValueHead(nn.Module):
    """Linear value head, initialised to 0: the first advantages equal those without a critic.

    Args:
        model: gives the width and the device.
        objectives: K: the head computes a value for each objective; None: one value.
    """

    def __init__(self, model: PreTrainedModel, objectives: int | None = None) -> None:
        super().__init__()
        width = model.get_output_embeddings().weight.shape[1]
        shape = () if objectives is None else (objectives,)
        # Float32 even if the model is narrower.
        self.weight = nn.Parameter(torch.zeros(width, *shape, device=model.device))
        self.bias = nn.Parameter(torch.zeros(shape, device=model.device))

    def forward(self, states: Tensor) -> Tensor:
        """Compute values of states ``[N, H]``: ``[N]`` or ``[N, K]``, float32 at least."""
        return states.to(self.weight.dtype) @ self.weight + self.bias


class Critic(BackboneCopy):
    """Separate critic: a copy of a language model's backbone with a value head.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes ``value`` ``[B, T]``, in reward units: the value of the state before the token, read from
    the hidden state of the previous token; 0 at t = 0 and outside ``response_mask``.

    Args:
        model: a causal model of transformers; it is not changed.
        engine: the compute engine of the backbone.

    Source:
        Stiennon et al. 2020, arXiv:2009.01325: policy and critic share no weights (their critic
        starts from the reward model).
    """

    reads = ("tokens", "attention_mask", "response_mask")
    writes = ("value",)

    def __init__(self, *, model: PreTrainedModel, engine: Engine = AUTO) -> None:
        super().__init__(model=model, engine=engine)
        self.value_head = ValueHead(model)

    @property
    def packs(self) -> bool:
        """Return True if a pass packs sequences and reads shared prompts once."""
        return self._transformer is not None

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values, with gradient if gradients are enabled."""
        batch["value"] = self.values(batch)
        return batch

    def values(self, batch: TensorDict) -> Tensor:
        """Compute values ``[B, T]``, in reward units; without gradient, ranks share the rows."""
        group = None if torch.is_grad_enabled() else ranks()
        if group is not None and group.can_share(self):
            columns = token_rows(type(self).__name__, batch)
            values: Tensor = group.call_on_all(self, "values_on_ranks", columns)
            return values.to(batch["tokens"].device)
        return self._values(batch)

    def _values(self, batch: TensorDict) -> Tensor:
        return read_values(self.backbone, self._transformer, self.value_head, batch)

    def values_on_ranks(self, rows: TensorDict) -> Tensor:
        """Compute values without gradient; each rank reads a part of the rows."""
        rows = rows.to(self.value_head.weight.device)
        return score_on_ranks(self, rows, split_rows, Critic._values)


class ActorCritic(LanguageModel):
    """A language model with a value head on its backbone.

    Until the value loss changes the shared backbone, samples and log-probs are the same as without
    the head, bit for bit. The head is trained even if adapters freeze the backbone.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``. Writes the entries of the
    :class:`LanguageModel`, and ``value`` ``[B, T]`` like :class:`Critic`; in a learner ``value``
    has a graph only if a loss reads it.

    Args:
        model: as for :class:`LanguageModel`.
        tokenizer: as for that class.
        decoding: as for that class.
        engine: as for that class.
        stop_tokens: as for that class.
        sampler_engine: as for that class.
    """

    writes = ("log_probs", "entropy", "log_distribution", "value")  # type: ignore[assignment]

    def __init__(
        self,
        *,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        decoding: Decoding,
        engine: Engine = AUTO,
        stop_tokens: list[str] | None = None,
        sampler_engine: SamplerEngine | None = None,
    ) -> None:
        super().__init__(
            model=model,
            tokenizer=tokenizer,
            decoding=decoding,
            engine=engine,
            stop_tokens=stop_tokens,
            sampler_engine=sampler_engine,
        )
        self.value_head = ValueHead(model)

    def forward(self, batch: TensorDict) -> TensorDict:
        """Write the values and the entries of :class:`LanguageModel`, in one forward pass."""
        states: list[Tensor] = []
        hook = self.model.get_decoder().register_forward_hook(
            lambda _, __, output: states.append(output.last_hidden_state)
        )
        with hook:  # the pass of transformers does not return its states
            scored = self.scoring.score(self._columns(batch, self.decoding))
        self.scoring.write(batch, scored, self.decoding)
        with torch.set_grad_enabled(torch.is_grad_enabled() and is_loss_input("value")):
            if self.packs:
                value = scored.scatter(self.value_head(scored.states[scored.rows]))
            else:
                value = spread_values(self.value_head, states[0], batch["response_mask"])
        batch["value"] = value
        return batch

    def values(self, batch: TensorDict) -> Tensor:
        """Compute values ``[B, T]``, in reward units, without the output head."""
        return read_values(
            self.model.get_decoder(), self.causal_forward.transformer, self.value_head, batch
        )

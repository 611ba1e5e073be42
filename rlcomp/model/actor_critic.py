"""Actor-critic with a shared backbone: a value head on the policy."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.component import is_loss_input
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import AUTO, Engine
from rlcomp.interfaces.sampler_engine import SamplerEngine
from rlcomp.model.language_model import LanguageModel
from rlcomp.model.value_head import ValueHead, read_values, spread_values


class ActorCritic(LanguageModel):
    """A language model with a value head on its backbone.

    Sampling and log-probs equal those of the :class:`LanguageModel`, bit for bit, until the value
    loss changes the shared backbone. With adapters the head is trained as well.

    Reads ``tokens``, ``attention_mask``, ``response_mask`` ``[B, T]``.

    Writes the entries of the language model, and ``value`` ``[B, T]``, in reward units: the value
    of the state before the token, read from the hidden state of the previous token. It is 0 at t =
    0 and outside ``response_mask``, and has a graph only if a loss of the learner requests it.

    Args:
        model: a causal model of transformers.
        tokenizer: the model's tokenizer.
        decoding: the distribution to sample from and to score under.
        engine: the compute engine.
        stop_tokens: tokens that end a response, in addition to EOS and the stop tokens of the
            model's ``generation_config``.
        sampler_engine: the decoder; null for the built-in loop.
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
        """Write log-probs and values of the response tokens, in one forward pass."""
        states: list[Tensor] = []
        watch = self.model.get_decoder().register_forward_hook(
            lambda _, __, output: states.append(output.last_hidden_state)
        )
        with watch:  # the native pass returns the states, the pass of transformers hides them
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
        """Compute values only, without the output head.

        Args:
            batch: holds ``tokens``, ``attention_mask`` and ``response_mask``.

        Returns:
            Shape ``[B, T]``, in reward units; 0 at t = 0 and outside ``response_mask``.
        """
        return read_values(
            self.model.get_decoder(), self.causal_forward.transformer, self.value_head, batch
        )

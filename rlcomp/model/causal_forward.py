"""Forward pass of a causal language model, and the tokens that end its responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlcomp.engine.architectures import probe
from rlcomp.engine.decoding import Decoding
from rlcomp.engine.engine import Engine
from rlcomp.engine.minibatch import split_by_length
from rlcomp.engine.modules import has_hooks
from rlcomp.engine.packing import split_by_tokens
from rlcomp.engine.scoring import (
    LogitFunctionMaker,
    ScoredTokens,
    compute_logit_functions,
    score,
    score_packed,
)
from rlcomp.errors import ConfigError, DataError
from rlcomp.model.fit_checks import check_vocabulary
from rlcomp.text.token_bytes import special_ids
from rlcomp.text.tokenizer import suppressed_token_mask

# Limits of a pass without gradient: its tokens, and its logits (4 GiB in float32).
_NO_GRAD_TOKENS = 32_768
_NO_GRAD_LOGITS = 2**30


class CausalForward:
    """Forward pass of a causal language model, by rlcomp's own transformer if it supports it.

    Args:
        model: a causal model of transformers.
        tokenizer: the model's tokenizer.
        engine: settings of the computation.
        stops: ids that end a response.

    Attributes:
        signature: call signature of the model, and the width of its logits.
        transformer: rlcomp's forward pass over the model's weights; None if unsupported.

    Raises:
        ConfigError: the model is not causal, has no cache, or has fewer tokens than the tokenizer.
    """

    # rlcomp.parallel.sharded reads this flag: a copy of the policy needs a copy of this object.
    reads_weights = True

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        engine: Engine,
        stops: Sequence[int],
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.engine = engine
        self.signature = probe(model)
        self.transformer = engine.transformer(model)
        check_vocabulary("policy", self.signature.vocabulary, tokenizer)
        # No buffer: it follows from the tokenizer, so checkpoints do not need it.
        self.suppressed = suppressed_token_mask(tokenizer, self.signature.vocabulary, stops=stops)

    @property
    def packs(self) -> bool:
        """Return True if a pass packs sequences and reads shared prompts once."""
        return self.transformer is not None

    def has_hooks(self) -> bool:
        """Return whether a module of the model has hooks."""
        return any(has_hooks(part) for part in self.model.modules())

    def suppressed_on(
        self, device: torch.device, stops: Sequence[int] = (), more: Sequence[int] = ()
    ) -> Tensor | None:
        """Return a mask of the ids that have probability 0, ``[V]``; None if there are none.

        Args:
            device: device of the mask.
            stops: ids that end a response and are not suppressed unless they are in ``more``; read
                only with ``more``.
            more: further ids to suppress.
        """
        suppressed = self.suppressed
        if more:
            vocabulary = self.signature.vocabulary
            suppressed = suppressed_token_mask(self.tokenizer, vocabulary, more, stops)
        return None if suppressed is None else suppressed.to(device)

    def budget(self) -> int:
        """Return the maximum number of tokens that one pass without gradient reads."""
        if self.packs:
            return _NO_GRAD_TOKENS
        return min(_NO_GRAD_TOKENS, _NO_GRAD_LOGITS // self.signature.vocabulary)

    def split(self, columns: TensorDict, budget: int) -> list[Tensor]:
        """Return indices of rows, in pieces of at most ``budget`` tokens, or of a single row."""
        if self.packs:
            return split_by_tokens(columns, budget)
        return split_by_length(columns["response_mask"], budget)

    def score(
        self,
        columns: TensorDict,
        weights: Mapping[str, Tensor] | None,
        routers: Sequence[nn.Module],
    ) -> ScoredTokens:
        """Return the states that predict the response tokens of rows.

        Args:
            columns: ``tokens``, ``attention_mask``, ``response_mask``, and recorded choices.
            weights: parameters to use in place of the model's, by name; None: the model's.
            routers: modules that replay the recorded routes; unused with other ``weights``.

        Raises:
            ConfigError: gradients at other ``weights`` under ``engine.checkpointing``.
        """
        if weights is not None and torch.is_grad_enabled() and self.engine.checkpointing:
            raise ConfigError(
                "engine.checkpointing computes layers again with the model's own weights: set it "
                "to false for gradients at other weights"
            )
        if self.transformer is None:
            replayed = routers if weights is None else ()
            return score(self.model, self.signature, columns, weights, replayed)
        return score_packed(self.transformer, columns, weights)

    def compute_logit_functions(
        self,
        scored: ScoredTokens,
        makers: Sequence[LogitFunctionMaker],
        differentiable: Sequence[bool],
        decoding: Decoding,
    ) -> list[Tensor]:
        """Return the values ``[B, T, ...]`` of logit functions, 0 outside ``response_mask``.

        Arguments are those of :func:`rlcomp.engine.scoring.compute_logit_functions`.
        """
        suppressed = self.suppressed_on(scored.states.device)
        return compute_logit_functions(scored, makers, differentiable, decoding, suppressed)


def stop_ids(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, stop_tokens: Sequence[str] = ()
) -> list[int]:
    """Return the ids that end a response: EOS, the model's stop ids, and ``stop_tokens``.

    The ``generation_config`` of a chat model has several stop ids: ends of a turn and of a text. An
    id of it counts only if it is a special token: in a config made without a tokenizer it may be an
    ordinary token.

    Args:
        model: the model with its ``generation_config``.
        tokenizer: has an EOS token.
        stop_tokens: further stop tokens, as text: ``["<|im_end|>"]``.

    Raises:
        ConfigError: a stop token is not a token of the tokenizer.
        DataError: the EOS of the ``generation_config`` is no id of the model.
    """
    vocabulary = tokenizer.get_vocab()
    for token in stop_tokens:
        if token not in vocabulary:
            raise ConfigError(
                f"policy.stop_tokens: {token!r:.60} is not a token of the tokenizer: write a token "
                "of its vocabulary"
            )
    eos = getattr(model.generation_config, "eos_token_id", None)
    ids = eos if isinstance(eos, (list, tuple)) else [] if eos is None else [eos]
    size = int(model.config.get_text_config().vocab_size)
    for token in ids:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < size:
            raise DataError(
                f"the model's generation_config.json says that eos_token_id is {eos!r:.60}, but "
                f"its tokens are 0 to {size - 1}: take the file that belongs to the model"
            )
    special = [token for token in ids if token in special_ids(tokenizer)]
    further = [vocabulary[token] for token in stop_tokens]
    return [*dict.fromkeys([int(tokenizer.eos_token_id), *special, *further])]

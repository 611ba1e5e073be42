"""Backbones of language models: their copies, their input rows, and heads at their states."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlcomp.canonical import canonical, missing_keys_message
from rlcomp.component import Component
from rlcomp.engine.engine import Engine
from rlcomp.engine.minibatch import split_by_length
from rlcomp.engine.packing import split_by_tokens
from rlcomp.engine.scoring import score_packed
from rlcomp.engine.transformer import Transformer
from rlcomp.errors import ConfigError, ShapeError
from rlcomp.functional.reduction import masked
from rlcomp.keys import Key

# Most tokens of a pass without gradient.
_NO_GRAD_TOKENS = 32_768


class BackboneCopy(Component):
    """Base of models with a copy of a language model's backbone.

    The copy gets the model's weights again when the first phase with it begins, so that a copy of
    the policy starts after the policy's warm start. From then on the two are separate. The copy
    stays in eval mode, even while it is trained.

    Args:
        model: a causal model of transformers; it is not changed.
        engine: the compute engine of the backbone.
    """

    model: PreTrainedModel
    started: Tensor
    _transformer: Transformer | None

    def __init__(self, *, model: PreTrainedModel, engine: Engine) -> None:
        super().__init__()
        # Not registered in nn.Module: the model's tensors belong to its owner.
        object.__setattr__(self, "model", model)
        self.backbone = copy.deepcopy(model.get_decoder()).eval()
        self.engine = engine
        object.__setattr__(self, "_transformer", engine.backbone(model, self.backbone))
        # A buffer, so that a resumed run does not copy the weights again.
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def train(self, mode: bool = True) -> BackboneCopy:
        """Set this module's flag; the backbone itself stays in eval mode."""
        super().train(mode)
        self.backbone.eval()
        return self

    def begin_phase(self) -> None:
        """Copy the model's current weights, once."""
        if not bool(self.started):
            self.backbone.load_state_dict(self.model.get_decoder().state_dict())
            self.started.fill_(True)


def token_rows(
    owner: str,
    batch: TensorDict,
    keys: Sequence[Key] = ("tokens", "attention_mask", "response_mask"),
    optional: Sequence[Key] = (),
    *,
    vocabulary: int | None = None,
) -> TensorDict:
    """Return the checked, canonical entries of a batch that a method of a model reads.

    Args:
        owner: class of the model, for messages.
        batch: other entries are left out.
        keys: required entries.
        optional: optional entries.
        vocabulary: number of the model's tokens; None for no check.

    Raises:
        KeyError: an entry is missing.
        ConfigError: a token id is outside the vocabulary, or an entry does not match the schema.
        ShapeError: there is no token, the rows are not padded on the right, or an entry has another
            number of dimensions than the schema says.
    """
    missing = [key for key in keys if key not in batch.keys()]
    if missing:
        raise KeyError(missing_keys_message(owner, missing, batch.keys()))
    rows = canonical(owner, batch.select(*keys, *optional, strict=False), [*keys, *optional])
    tokens, mask = rows["tokens"], rows["attention_mask"]
    if not tokens.numel():
        raise ShapeError(f"{owner}: 'tokens' has shape {list(tokens.shape)}: it holds no token")
    if vocabulary is not None:
        unknown = mask & ((tokens < 0) | (tokens >= vocabulary))
        if bool(unknown.any()):
            row, column = unknown.nonzero()[0].tolist()
            raise ConfigError(
                f"{owner}: 'tokens' at [{row}, {column}] is {int(tokens[row, column])}, but the "
                f"model has ids 0 to {vocabulary - 1}: encode the text with its own tokenizer"
            )
    return rows


def read_values(
    backbone: nn.Module, transformer: Transformer | None, head: nn.Module, batch: TensorDict
) -> Tensor:
    """Compute the output of a head at the state before each response token.

    Without gradient each pass reads a part of the rows: memory does not grow with the batch.

    Args:
        backbone: a causal model without its output head, in eval mode.
        transformer: rlcomp's forward pass over the backbone's weights; None: call the backbone.
        head: reads the hidden states.
        batch: has ``tokens``, ``attention_mask`` and ``response_mask``, ``[B, T]``.

    Returns:
        Shape ``[B, T]``, or ``[B, T, K]``; 0 outside ``response_mask`` and at t = 0.
    """
    columns = token_rows(type(head).__name__, batch)

    def read(rows: TensorDict) -> Tensor:
        if transformer is None:
            return spread_values(head, _states(backbone, rows), rows["response_mask"])
        scored = score_packed(transformer, rows, None)
        return scored.scatter(head(scored.states[scored.rows]))

    if torch.is_grad_enabled() or columns["tokens"].numel() <= _NO_GRAD_TOKENS:
        return read(columns)
    if transformer is None:
        order = split_by_length(columns["response_mask"], _NO_GRAD_TOKENS)
    else:
        order = split_by_tokens(columns, _NO_GRAD_TOKENS)
    parts = [read(columns[rows]) for rows in order]
    return torch.cat(parts)[torch.cat(order).argsort()]


def split_rows(rows: TensorDict, tokens: int | None) -> Iterator[TensorDict]:
    """Yield pieces of rows for passes without gradient.

    A piece has at most ``tokens`` tokens, and never more than 32,768; None: 32,768. A prompt that
    rows share counts once, and a single row may exceed the limit.
    """
    budget = _NO_GRAD_TOKENS if tokens is None else min(tokens, _NO_GRAD_TOKENS)
    return (rows[indices] for indices in split_by_tokens(rows, budget))


def spread_values(head: nn.Module, states: Tensor, response_mask: Tensor) -> Tensor:
    """Compute the output of a head at the state before each response token, from all states.

    Args:
        head: reads the states.
        states: shape ``[B, L, H]``; the state at column t has read tokens 0 to t, and L - 1 is at
            least the column before the last response token.
        response_mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, or ``[B, T, K]``; 0 outside ``response_mask`` and at t = 0.
    """
    # Only these states are read: NaN in others must not reach the gradient.
    rows, columns = F.pad(response_mask[:, 1:], (1, 0)).nonzero(as_tuple=True)
    values: Tensor = head(states[rows, columns - 1])
    empty = values.new_zeros(*response_mask.shape, *values.shape[1:])
    return empty.index_put((rows, columns), values)


def _states(backbone: nn.Module, batch: TensorDict) -> Tensor:
    # The model gets no attention mask: see rlcomp.engine.scoring.score.
    ids, mask = masked(batch["tokens"], batch["attention_mask"]), batch["response_mask"]
    needed = mask.any(0).nonzero().flatten()
    length = max(int(needed[-1]), 1) if len(needed) else 1
    states: Tensor = backbone(input_ids=ids[:, :length], use_cache=False).last_hidden_state
    return states

"""Value head: from hidden states of a language model to state values."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn
from transformers import PreTrainedModel

from rlcomp.engine.minibatch import split_by_length
from rlcomp.engine.packing import split_by_tokens
from rlcomp.engine.scoring import score_packed
from rlcomp.engine.transformer import Transformer
from rlcomp.functional.reduction import masked
from rlcomp.model.token_rows import token_rows

# Tokens that a pass without gradient reads at a time.
_NO_GRAD_TOKENS = 32_768


class ValueHead(nn.Module):
    """Linear value head, initialised to 0: the first advantages equal those without a critic.

    Args:
        model: gives width and device; its last hidden states are the inputs.
        objectives: K, for one value per objective; None for one value.
    """

    def __init__(self, model: PreTrainedModel, objectives: int | None = None) -> None:
        super().__init__()
        width = model.get_output_embeddings().weight.shape[1]
        shape = () if objectives is None else (objectives,)
        # Float32 also if the model is narrower; no generator is used.
        self.weight = nn.Parameter(torch.zeros(width, *shape, device=model.device))
        self.bias = nn.Parameter(torch.zeros(shape, device=model.device))

    def forward(self, states: Tensor) -> Tensor:
        """Compute the values of states.

        Args:
            states: shape ``[N, H]``.

        Returns:
            Shape ``[N]``, or ``[N, K]``, in reward units, float32 at least.
        """
        return states.to(self.weight.dtype) @ self.weight + self.bias


def read_values(
    backbone: nn.Module, transformer: Transformer | None, head: nn.Module, batch: TensorDict
) -> Tensor:
    """Compute the value of the state before each response token.

    Without gradient some rows are read at a time, so that memory does not grow with the batch.

    Args:
        backbone: a causal model without its output head, in eval mode.
        transformer: our own forward pass over it; None to use the backbone's.
        head: reads its hidden states.
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, ``[B, T]``.

    Returns:
        Shape ``[B, T]``, or ``[B, T, K]``, in reward units; 0 outside ``response_mask`` and at
        t = 0.
    """
    columns = token_rows(type(head).__name__, batch)

    def at_once(some: TensorDict) -> Tensor:
        if transformer is None:
            return spread_values(head, _states(backbone, some), some["response_mask"])
        scored = score_packed(transformer, some, None)
        return scored.scatter(head(scored.states[scored.rows]))

    if torch.is_grad_enabled() or columns["tokens"].numel() <= _NO_GRAD_TOKENS:
        return at_once(columns)
    if transformer is not None:
        order = split_by_tokens(columns, _NO_GRAD_TOKENS)
    else:
        order = split_by_length(columns["response_mask"], _NO_GRAD_TOKENS)
    parts = [at_once(columns[rows]) for rows in order]
    return torch.cat(parts)[torch.cat(order).argsort()]


def parted(rows: TensorDict, tokens: int | None) -> Iterator[TensorDict]:
    """Yield pieces of rows for passes without gradient.

    Args:
        rows: with ``tokens`` and ``response_mask``, ``[B, T]``.
        tokens: the most tokens of a piece, if less than the default.
    """
    budget = _NO_GRAD_TOKENS if tokens is None else min(tokens, _NO_GRAD_TOKENS)
    return (rows[some] for some in split_by_tokens(rows, budget))


def spread_values(head: nn.Module, states: Tensor, response_mask: Tensor) -> Tensor:
    """Scatter values of listed tokens to ``[B, T]``, or ``[B, T, K]``.

    Args:
        head: reads the states.
        states: shape ``[B, L, H]``; the state at column t has read tokens 0 to t. L reaches the
            column before the last response token at least.
        response_mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, or ``[B, T, K]``, in reward units; 0 outside ``response_mask``, and at t =
        0, where there is no state before.
    """
    # Only the needed states are selected: NaN in others must not reach the gradient.
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

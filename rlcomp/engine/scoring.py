"""Scoring forward pass: hidden states or logits that predict the response tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn
from torch.func import functional_call
from transformers import PreTrainedModel

from rlcomp.engine.output_head import Head
from rlcomp.engine.packing import pack
from rlcomp.engine.probe import ModelSignature
from rlcomp.engine.routing import replay_routes
from rlcomp.engine.sampling_mask import contains
from rlcomp.engine.transformer import Transformer
from rlcomp.errors import DataError, ShapeError
from rlcomp.functional.reduction import masked


@dataclass(frozen=True)
class ScoredTokens:
    """The response tokens of a batch as one list of length ``N``.

    Attributes:
        states: shape ``[M, H]``: last hidden states, possibly of more tokens than needed. Without
            a ``head``: the logits, ``[M, V]``.
        head: the output head. None: ``states`` are logits.
        rows: shape ``[N]``: index of the state that predicts each token.
        targets: shape ``[N]``: id of each token.
        flat_indices: shape ``[N]``: index of each token in the flattened batch.
        shape: ``(B, T)``.
        sampling_mask: shape ``[N, ceil(V / 8)]``, uint8: the sampling mask of each
            token. None if not recorded.
    """

    states: Tensor
    head: Head | None
    rows: Tensor
    targets: Tensor
    flat_indices: Tensor
    shape: torch.Size
    sampling_mask: Tensor | None = None

    def scatter(self, values: Tensor) -> Tensor:
        """Scatter values of the listed tokens to ``[B, T, ...]``; 0 elsewhere."""
        empty = values.new_zeros(self.shape.numel(), *values.shape[1:])
        return empty.index_copy(0, self.flat_indices, values).view(*self.shape, *values.shape[1:])


def score_packed(
    transformer: Transformer, batch: TensorDict, weights: Mapping[str, Tensor] | None
) -> ScoredTokens:
    """Compute hidden states that predict the response tokens, by the native forward pass.

    Args:
        transformer: reads packed tokens.
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, ``[B, T]``; if it holds
            ``sampling_mask``, each response token must be in its own mask.
        weights: parameters by name, in place of the model's parameters. None: the model's own.

    Raises:
        DataError: a token is outside its sampling mask.
    """
    packed, response = pack(batch)
    needed, rows = response.states.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    states, head = transformer.with_weights(packed, needed, weights)
    return ScoredTokens(
        sampling_mask=None
        if head is None
        else _recorded_masks(batch, response.flat_indices, len(head.weight)),
        states=states,
        head=head,
        rows=rows,
        targets=response.targets,
        flat_indices=response.flat_indices,
        shape=batch["tokens"].shape,
    )


def score(
    model: PreTrainedModel,
    traits: ModelSignature,
    batch: TensorDict,
    weights: Mapping[str, Tensor] | None,
    routers: Sequence[nn.Module] = (),
) -> ScoredTokens:
    """Compute logits that predict the response tokens, by the model's own forward pass.

    Args:
        model: in eval mode.
        traits: the model's call signature.
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, ``[B, T]``; if it holds
            ``sampling_mask``, each response token must be in its own mask.
        weights: parameters by name, in place of the model's parameters. None: the model's own.
        routers: routers of a mixture of experts. They use the routes of the batch entry
            ``routed_experts`` ``[B, T, L, E]`` if it exists.

    Raises:
        DataError: a token is outside its sampling mask.
    """
    # The model gets no attention mask: padding is on the right and a causal model looks left only,
    # so no response token sees padding. Padding ids may be anything: 0 is always a token.
    ids = masked(batch["tokens"], batch["attention_mask"])
    # Column t of `wanted`: whether the logits at t, which predict tokens[t + 1], are needed.
    wanted = F.pad(batch["response_mask"][:, 1:], (0, 1))
    columns = wanted.any(0).nonzero().flatten()
    if not len(columns):
        # One unused column keeps the result connected to the weights.
        columns = torch.zeros(1, dtype=torch.int64, device=ids.device)
    width = int(columns[-1]) + 1
    with contextlib.ExitStack() as stack:
        if routers and "routed_experts" in batch.keys():
            routes = batch["routed_experts"][:, :width].flatten(0, 1)
            stack.enter_context(replay_routes(routers, routes))
        logits = _logits(model, traits, ids[:, :width], columns, weights)
    rows, picks = wanted[:, columns].nonzero(as_tuple=True)
    flat_indices = rows * ids.shape[1] + columns[picks] + 1
    return ScoredTokens(
        sampling_mask=_recorded_masks(batch, flat_indices, logits.shape[-1]),
        states=logits.flatten(0, 1),
        head=None,
        rows=rows * len(columns) + picks,
        targets=ids.flatten()[flat_indices],
        flat_indices=flat_indices,
        shape=ids.shape,
    )


def _recorded_masks(batch: TensorDict, flat_indices: Tensor, vocabulary: int) -> Tensor | None:
    """Return the recorded sampling masks, ``[N, ceil(V / 8)]``; None if none are recorded."""
    if "sampling_mask" not in batch.keys():
        return None
    width, wanted = batch["sampling_mask"].shape[-1], -(-vocabulary // 8)
    if width != wanted:
        raise ShapeError(f"'sampling_mask' has {width} bytes a token, the model needs {wanted}")
    masks: Tensor = batch["sampling_mask"].flatten(0, 1)[flat_indices]
    tokens = batch["tokens"].flatten()[flat_indices]
    is_outside = ~contains(masks, tokens)
    if bool(is_outside.any()):
        row, column = divmod(int(flat_indices[is_outside][0]), batch["tokens"].shape[1])
        raise DataError(
            f"'sampling_mask' at [{row}, {column}] excludes the token at that position, "
            f"{int(tokens[is_outside][0])}: pass the masks that the tokens were sampled under"
        )
    return masks


def _logits(
    model: PreTrainedModel,
    traits: ModelSignature,
    ids: Tensor,
    columns: Tensor,
    weights: Mapping[str, Tensor] | None,
) -> Tensor:
    """Compute the model's logits at some columns, shape ``[B, C, V]``."""
    arguments: dict[str, object] = {"input_ids": ids, "use_cache": False}
    if traits.keeps_columns:
        arguments["logits_to_keep"] = columns
    if weights is None:
        logits: Tensor = model(**arguments).logits
    else:
        logits = functional_call(model, dict(weights), (), arguments).logits
    return logits if traits.keeps_columns else logits[:, columns]


def split_by_length(response_mask: Tensor, budget: int) -> list[Tensor]:
    """Split rows, sorted by length, longest first, into batches of bounded size.

    Args:
        response_mask: shape ``[B, T]``, bool.
        budget: the most tokens of a batch, padding included; a longer row is a batch by itself.

    Returns:
        Indices of rows, int64; every row occurs once.

    Examples:
        >>> mask = torch.tensor([[False, True, False], [False, False, True]])
        >>> split_by_length(mask, 2)
        [tensor([1]), tensor([0])]
    """
    position = torch.arange(response_mask.shape[1], device=response_mask.device)
    # A row is read up to the token before its last one.
    needed = masked(position.expand(response_mask.shape), response_mask).amax(1).clamp(min=1)
    lengths, order = needed.sort(descending=True, stable=True)
    batches, start = [], 0
    while start < len(order):
        stop = start + max(1, budget // int(lengths[start]))
        batches.append(order[start:stop])
        start = stop
    return batches

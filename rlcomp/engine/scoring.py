"""Scoring: forward pass over a batch, and functions of the logits of its response tokens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor, nn
from torch.func import functional_call
from transformers import PreTrainedModel

from rlcomp.engine.architectures import ModelSignature
from rlcomp.engine.decoding import Decoding, mask_contains
from rlcomp.engine.logprob import (
    entropy,
    log_distribution,
    squared_probs,
    token_log_probs,
    token_log_probs_gradient,
)
from rlcomp.engine.output_head import Head, LogitFunction, compute_in_tiles
from rlcomp.engine.packing import pack
from rlcomp.engine.routing import replay_routes
from rlcomp.engine.transformer import Transformer
from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.functional.reduction import masked


@dataclass(frozen=True)
class ScoredTokens:
    """The response tokens of a batch as one list of length ``N``.

    Attributes:
        states: last hidden states, shape ``[M, H]``; without a ``head``, logits ``[M, V]``.
        head: the output head. None: ``states`` are logits.
        rows: shape ``[N]``: index of the state that predicts each token.
        targets: shape ``[N]``: id of each token.
        flat_indices: shape ``[N]``: index of each token in the flattened batch.
        shape: ``(B, T)``.
        sampling_mask: shape ``[N, ceil(V / 8)]``, uint8; None if not recorded.
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
    """Compute hidden states that predict the response tokens, by the packed forward pass.

    Args:
        transformer: the model.
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, ``[B, T]``; if it holds
            ``sampling_mask``, each response token must be in its own mask.
        weights: parameters by name, in place of the model's parameters. None: the model's own.

    Raises:
        DataError: a token is outside its sampling mask.
        ShapeError: ``sampling_mask`` does not match the model.
    """
    packed, response = pack(batch)
    # Tokens behind a fork have the same predecessor: its state is computed once.
    indices, rows = response.packed_indices.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    states, head = transformer.with_weights(packed, indices, weights)
    masks = None
    if head is not None:
        masks = _recorded_masks(batch, response.flat_indices, len(head.weight))
    return ScoredTokens(
        states=states,
        head=head,
        rows=rows,
        targets=response.targets,
        flat_indices=response.flat_indices,
        shape=batch["tokens"].shape,
        sampling_mask=masks,
    )


def score(
    model: PreTrainedModel,
    signature: ModelSignature,
    batch: TensorDict,
    weights: Mapping[str, Tensor] | None,
    routers: Sequence[nn.Module] = (),
) -> ScoredTokens:
    """Compute logits that predict the response tokens, by the model's own forward pass.

    Args:
        model: the model, in eval mode.
        signature: the model's call signature.
        batch: holds ``tokens``, ``attention_mask`` and ``response_mask``, ``[B, T]``; if it holds
            ``sampling_mask``, each response token must be in its own mask.
        weights: parameters by name, in place of the model's parameters. None: the model's own.
        routers: routers of a mixture of experts, to replay the batch entry ``routed_experts``
            ``[B, T, L, E]`` if it exists.

    Raises:
        DataError: a token is outside its sampling mask.
        ShapeError: ``sampling_mask`` or ``routed_experts`` does not match the model.
    """
    # No attention mask: padding is on the right, and attention is causal. Padding ids may be
    # invalid: 0 is always a token.
    ids = masked(batch["tokens"], batch["attention_mask"])
    # The logits at column t predict tokens[t + 1].
    predicts = F.pad(batch["response_mask"][:, 1:], (0, 1))
    columns = predicts.any(0).nonzero().flatten()
    if not len(columns):
        # One unused column keeps the result connected to the weights.
        columns = torch.zeros(1, dtype=torch.int64, device=ids.device)
    width = int(columns[-1]) + 1
    with contextlib.ExitStack() as stack:
        if routers and "routed_experts" in batch.keys():
            routes = batch["routed_experts"][:, :width].flatten(0, 1)
            stack.enter_context(replay_routes(routers, routes))
        logits = _logits(model, signature, ids[:, :width], columns, weights)
    rows, column_indices = predicts[:, columns].nonzero(as_tuple=True)
    flat_indices = rows * ids.shape[1] + columns[column_indices] + 1
    return ScoredTokens(
        states=logits.flatten(0, 1),
        head=None,
        rows=rows * len(columns) + column_indices,
        targets=ids.flatten()[flat_indices],
        flat_indices=flat_indices,
        shape=ids.shape,
        sampling_mask=_recorded_masks(batch, flat_indices, logits.shape[-1]),
    )


def _recorded_masks(batch: TensorDict, flat_indices: Tensor, vocabulary: int) -> Tensor | None:
    """Return the recorded sampling masks, ``[N, ceil(V / 8)]``; None if none are recorded."""
    if "sampling_mask" not in batch.keys():
        return None
    width, expected = batch["sampling_mask"].shape[-1], -(-vocabulary // 8)
    if width != expected:
        raise ShapeError(f"'sampling_mask' has {width} bytes per token, the model needs {expected}")
    masks: Tensor = batch["sampling_mask"].flatten(0, 1)[flat_indices]
    tokens = batch["tokens"].flatten()[flat_indices]
    is_outside = ~mask_contains(masks, tokens)
    if bool(is_outside.any()):
        row, column = divmod(int(flat_indices[is_outside][0]), batch["tokens"].shape[1])
        raise DataError(
            f"'sampling_mask' at [{row}, {column}] excludes the token at that position, "
            f"{int(tokens[is_outside][0])}: pass the masks of the sampler"
        )
    return masks


def _logits(
    model: PreTrainedModel,
    signature: ModelSignature,
    ids: Tensor,
    columns: Tensor,
    weights: Mapping[str, Tensor] | None,
) -> Tensor:
    """Compute the model's logits at some columns, shape ``[B, C, V]``."""
    arguments: dict[str, object] = {"input_ids": ids, "use_cache": False}
    if signature.keeps_columns:
        arguments["logits_to_keep"] = columns
    if weights is None:
        logits: Tensor = model(**arguments).logits
    else:
        logits = functional_call(model, dict(weights), (), arguments).logits
    return logits if signature.keeps_columns else logits[:, columns]


# Returns the logit function of listed tokens, for a decoding distribution and suppressed tokens
# (``[V]``, bool).
LogitFunctionMaker = Callable[[ScoredTokens, Decoding, "Tensor | None"], LogitFunction]


def log_prob_function(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for the log-prob of each listed token, ``[N]``, nats.

    Recorded sampling masks replace the filters.

    Raises:
        ConfigError: a gradient of a greedy policy is requested.
    """
    if decoding.temperature == 0 and torch.is_grad_enabled():
        raise ConfigError(
            "decoding.temperature is 0: a greedy policy has no gradient. Train at a "
            "temperature above 0, and set greedy decoding of the evaluator alone"
        )
    return sampled_log_probs(scored.targets, decoding, suppressed, scored.sampling_mask)


def squared_prob_function(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for ``sum_v p_v^2`` at each listed token, ``[N]``."""

    def value(logits: Tensor, part: slice) -> Tensor:
        masks = None if scored.sampling_mask is None else scored.sampling_mask[part]
        return squared_probs(logits, scored.targets[part], decoding, suppressed, masks)

    return LogitFunction(value)


def distribution_function(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for all log-probs, ``[N, V]``, nats, before any filter."""
    del scored
    return LogitFunction(
        lambda logits, _: log_distribution(logits, decoding.temperature, suppressed)
    )


def entropy_function(
    scored: ScoredTokens, decoding: Decoding, suppressed: Tensor | None
) -> LogitFunction:
    """Return the logit function for the entropy at each token, ``[N]``, nats, before any filter."""
    del scored
    return LogitFunction(lambda logits, _: entropy(logits, decoding.temperature, suppressed))


def compute_logit_functions(
    scored: ScoredTokens,
    makers: Sequence[LogitFunctionMaker],
    differentiable: Sequence[bool],
    decoding: Decoding,
    suppressed: Tensor | None,
) -> list[Tensor]:
    """Compute logit functions of listed tokens and scatter their values to the batch.

    Args:
        scored: the listed tokens.
        makers: makers of the logit functions, such as :func:`log_prob_function`.
        differentiable: whether each function needs a gradient, if it has one.
        decoding: the decoding distribution.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.

    Returns:
        One tensor per function, shape ``[B, T, ...]``, 0 outside the listed tokens.
    """
    functions = [make(scored, decoding, suppressed) for make in makers]
    functions = [
        replace(function, differentiable=function.differentiable and needed)
        for function, needed in zip(functions, differentiable, strict=True)
    ]
    listed = compute_in_tiles(functions, scored.states, scored.rows, scored.head)
    return [scored.scatter(values) for values in listed]


def sampled_log_probs(
    tokens: Tensor,
    decoding: Decoding,
    suppressed: Tensor | None = None,
    recorded: Tensor | None = None,
) -> LogitFunction:
    """Return :func:`rlcomp.engine.logprob.token_log_probs` of listed tokens as a logit function.

    Args:
        tokens: shape ``[N]``, int64.
        decoding: temperature and filters; greedy decoding has no gradient.
        suppressed: tokens that are never drawn, shape ``[V]``, bool, or None.
        recorded: sampling masks, shape ``[N, ceil(V / 8)]``, uint8, or None.
    """

    def value(logits: Tensor, part: slice) -> Tensor:
        return token_log_probs(logits, tokens[part], decoding, suppressed, masks(part))

    def gradient(grad: Tensor, logits: Tensor, part: slice) -> Tensor:
        return token_log_probs_gradient(
            grad, logits, tokens[part], decoding, suppressed, masks(part)
        )

    def masks(part: slice) -> Tensor | None:
        return None if recorded is None else recorded[part]

    return LogitFunction(value, decoding.temperature > 0, gradient)

"""Draw of tokens in a decode loop, and the transcript that collects the draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rlcomp.engine.decoding import Decoding, filter_logits, pack_mask
from rlcomp.engine.stopping import StopRule

# Logits per chunk of a draw: 4 MB, so that they fit in a cache.
_LOGITS_PER_DRAW = 2**20
# Tokens of a block of a large vocabulary. Near the root of the vocabulary size, sums over blocks
# and sums within a block cost the same.
_BLOCK = 128


@dataclass(frozen=True)
class SampledTokens:
    """One sampled token per row.

    Attributes:
        tokens: shape ``[N]``, int64.
        log_probs: shape ``[N]``, nats.
        sampling_mask: shape ``[N, ceil(V / 8)]``, uint8; None if not recorded.
    """

    tokens: Tensor
    log_probs: Tensor
    sampling_mask: Tensor | None = None


# From logits ``[N, V]`` and a uniform number for each row, ``[N, 1]``.
Draw = Callable[[Tensor, Tensor], SampledTokens]


@dataclass(frozen=True)
class TokenDraw:
    """Draw of tokens from a decoding distribution (:func:`draw_tokens`).

    Attributes:
        decoding: the distribution to draw from; if it ``replays``, sampling masks are recorded.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.
    """

    decoding: Decoding
    suppressed: Tensor | None = None

    def __call__(self, logits: Tensor, uniform: Tensor) -> SampledTokens:
        """Draw one token per row."""
        return draw_tokens(logits, uniform, self.decoding, self.suppressed)


@dataclass(frozen=True)
class SampledResponses:
    """The sampled responses of a batch of ``B`` rows after ``S`` decode steps.

    Attributes:
        tokens: shape ``[B, S]``, int64; arbitrary after a row's end.
        log_probs: shape ``[B, S]``, nats; arbitrary after a row's end.
        lengths: shape ``[B]``, int64: number of sampled tokens, including the last one.
        truncated: shape ``[B]``, bool: the limit ended the row, not a stop.
        sampling_mask: shape ``[B, S, ceil(V / 8)]``, uint8; arbitrary after a row's end. None if
            not recorded.
        routes: shape ``[B, T, L, E]``, uint8: the experts of each token of prompt and response
            (:func:`rlcomp.engine.routing.routes_of_rows`). None if not recorded.
    """

    tokens: Tensor
    log_probs: Tensor
    lengths: Tensor
    truncated: Tensor
    sampling_mask: Tensor | None = None
    routes: Tensor | None = None


class Transcript:
    """Buffer of the draws of a batch of ``rows`` rows, in segments of steps."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._segments: list[tuple[list[int], int, SampledTokens]] = []

    def write(self, rows: Sequence[int], start: int, steps: Sequence[SampledTokens]) -> None:
        """Store the steps of some rows.

        Args:
            rows: indices of the rows in the batch. The draws may have more rows; the additional
                rows are padding and are dropped.
            start: number of the first step.
            steps: the draws of each step, at least one.
        """
        masks = [
            step.sampling_mask[: len(rows)] for step in steps if step.sampling_mask is not None
        ]
        drawn = SampledTokens(
            torch.stack([step.tokens[: len(rows)] for step in steps], 1),
            torch.stack([step.log_probs[: len(rows)] for step in steps], 1),
            torch.stack(masks, 1) if masks else None,
        )
        self._segments.append((list(rows), start, drawn))

    def responses(self, stop: StopRule) -> SampledResponses:
        """Return the responses of all rows; ``stop`` is the rule that ended them.

        After a row's end there are draws that the row no longer needed, then 0.
        """
        length = max(stop.lengths)
        tokens = self._assemble([drawn.tokens for _, _, drawn in self._segments], length)
        masks = [
            drawn.sampling_mask for _, _, drawn in self._segments if drawn.sampling_mask is not None
        ]
        lengths, truncated = stop.results(tokens.device)
        return SampledResponses(
            tokens=tokens,
            log_probs=self._assemble([drawn.log_probs for _, _, drawn in self._segments], length),
            lengths=lengths,
            truncated=truncated,
            sampling_mask=self._assemble(masks, length) if masks else None,
        )

    def _assemble(self, parts: Sequence[Tensor], length: int) -> Tensor:
        """Return the values of all segments as one tensor ``[B, length, ...]``."""
        values = parts[0].new_zeros(self.rows, length, *parts[0].shape[2:])
        for (rows, start, _), part in zip(self._segments, parts, strict=True):
            stop = min(start + part.shape[1], length)
            values[rows, start:stop] = part[:, : max(0, stop - start)]
        return values


def draw_tokens(
    logits: Tensor, uniform: Tensor, decoding: Decoding, suppressed: Tensor | None
) -> SampledTokens:
    """Draw one token per row; on a CPU in chunks of rows.

    Args:
        logits: shape ``[N, V]``.
        uniform: numbers in [0, 1), shape ``[N, 1]``, float64.
        decoding: the distribution to draw from; if it ``replays``, sampling masks are recorded.
        suppressed: tokens that are never drawn, shape ``[V]``, bool.
    """
    rows = (
        max(1, _LOGITS_PER_DRAW // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    )
    if len(logits) <= rows:
        return _draw_chunk(logits, uniform, decoding, suppressed)
    starts = range(0, len(logits), rows)
    parts = [
        _draw_chunk(
            logits[start : start + rows], uniform[start : start + rows], decoding, suppressed
        )
        for start in starts
    ]
    masks = [part.sampling_mask for part in parts if part.sampling_mask is not None]
    return SampledTokens(
        torch.cat([part.tokens for part in parts]),
        torch.cat([part.log_probs for part in parts]),
        torch.cat(masks) if masks else None,
    )


def _draw_chunk(
    logits: Tensor, uniform: Tensor, decoding: Decoding, suppressed: Tensor | None
) -> SampledTokens:
    scores = filter_logits(logits, decoding, suppressed)
    tokens, log_probs = sample(scores, uniform)
    return SampledTokens(
        tokens, log_probs, pack_mask(scores > -torch.inf) if decoding.replays else None
    )


def sample(scores: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one token per row by inverse-CDF sampling.

    A row's token depends on its scores and its uniform number alone. A token whose probability is 0
    in the dtype of the scores is never drawn. For a large vocabulary, first a block of tokens is
    drawn, then a token of the block by the remainder of the uniform number: few of the sums need
    float64.

    Args:
        scores: log-probs up to a constant, shape ``[N, V]``; ``-inf`` for tokens that cannot be
            drawn.
        uniform: numbers in [0, 1), shape ``[N, 1]``, float64.

    Returns:
        Tokens, int64, and their log-probs, nats, in the dtype of the scores; shape ``[N]`` each.
    """
    top = scores.amax(-1, keepdim=True)
    if scores.shape[-1] <= 2 * _BLOCK:
        cumulative, token = _invert((scores - top).exp_(), uniform)
    else:
        weights = _in_blocks(scores, top)
        sums = weights.sum(-1)
        cumulative, block = _invert(sums, uniform)
        remainder = _remainder(sums, cumulative, block, uniform)
        block_weights = weights.gather(1, block[..., None].expand(-1, -1, _BLOCK)).squeeze(1)
        # NaN scores must give a valid index, too: hence the clamp.
        token = block * _BLOCK + _invert(block_weights, remainder)[1]
        token.clamp_(max=scores.shape[-1] - 1)
    log_prob = scores.gather(-1, token) - top - cumulative[:, -1:].log()
    return token.squeeze(-1), log_prob.squeeze(-1).to(scores.dtype)


def _in_blocks(scores: Tensor, top: Tensor) -> Tensor:
    """Compute ``exp(scores - top)``, shape ``[N, ceil(V / block), block]``, padded with zeros."""
    rows, vocabulary = scores.shape
    weights = scores.new_empty(rows, -(-vocabulary // _BLOCK), _BLOCK)
    flat = weights.view(rows, -1)
    flat[:, vocabulary:] = -torch.inf
    torch.sub(scores, top, out=flat[:, :vocabulary])
    return weights.exp_()


def _invert(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Invert the CDF: find per row of weights ``[N, n]`` the first cumulative sum above ``u``.

    With ``u`` in [0, total), the first cumulative sum that exceeds ``u`` belongs to a positive
    weight, but for two roundings: ``u * total`` may reach ``total``, and a parallel prefix sum may
    grow by an ulp at a zero weight. In these cases, with a chance of about 1e-16, the result is the
    median.

    Returns:
        The cumulative sums, shape ``[N, n]``, float64; the index, int64, shape ``[N, 1]``.
    """
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    levels = F.pad(uniform, (0, 1), value=0.5).mul_(cumulative[:, -1:])
    index = torch.searchsorted(cumulative, levels, right=True).clamp_(max=weights.shape[-1] - 1)
    drawn, median = index[:, :1], index[:, 1:]
    return cumulative, torch.where(weights.gather(-1, drawn) > 0, drawn, median)


def _remainder(weights: Tensor, cumulative: Tensor, index: Tensor, uniform: Tensor) -> Tensor:
    """Return the remainder of the uniform number within the drawn entry, in [0, 1], ``[N, 1]``."""
    weight = weights.gather(-1, index).double()
    level = uniform * cumulative[:, -1:]
    return ((level - cumulative.gather(-1, index)) / weight + 1).clamp_(0, 1)

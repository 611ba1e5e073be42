"""Draws of next tokens in a decode loop, and the transcript that collects them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlcomp.engine.decoding import Decoding, filter_logits, sample
from rlcomp.engine.sampling_mask import pack
from rlcomp.engine.stopping import StopRule

# Logits that a draw processes at a time: 1 million, which fit in a cache of 4 MB.
_LOGITS_PER_DRAW = 2**20


@dataclass(frozen=True)
class SampledTokens:
    """One sampled token per row.

    Attributes:
        tokens: shape ``[N]``, int64.
        log_probs: shape ``[N]``, nats.
        sampling_mask: shape ``[N, ceil(V / 8)]``, uint8: the sampling mask of each token.
            None if not recorded.
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
        truncated: shape ``[B]``, bool: the row was cut at its limit.
        sampling_mask: shape ``[B, S, ceil(V / 8)]``, uint8: the sampling mask of each
            token; arbitrary after a row's end. None if not recorded.
        routes: shape ``[B, P + S, L, K]``, uint8: the experts of each token of
            the prompt and the response (:mod:`rlcomp.engine.routing`). None if not recorded.
    """

    tokens: Tensor
    log_probs: Tensor
    lengths: Tensor
    truncated: Tensor
    sampling_mask: Tensor | None = None
    routes: Tensor | None = None


class Transcript:
    """Buffer of the draws of a batch, in segments of steps.

    Args:
        rows: ``B``, the number of rows.
    """

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

    def sampled(self, stop: StopRule) -> SampledResponses:
        """Return the responses of all rows, padded with 0.

        Args:
            stop: the rule that ended the rows.
        """
        length = max(stop.lengths)  # no row uses the steps after it
        tokens = self._assemble([drawn.tokens for _, _, drawn in self._segments], length)
        masks = [
            drawn.sampling_mask for _, _, drawn in self._segments if drawn.sampling_mask is not None
        ]
        lengths, truncated = stop.ends(tokens.device)
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
        suppressed: tokens that are never drawn, shape ``[V]``, bool. None: all may be drawn.

    Returns:
        The tokens, their log-probs and their sampling masks.
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
    return SampledTokens(tokens, log_probs, pack(scores > -torch.inf) if decoding.replays else None)

"""Generation over several turns: the policy samples, the environment adds tokens, and so on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rlcomp.engine.draw import Draw, SampledResponses, SampledTokens
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import ForkUniforms, TurnUniforms, Uniforms


@dataclass(frozen=True)
class SamplingParams:
    """Sampling parameters of the rows of a session.

    Attributes:
        stops: tokens that end a turn.
        table: the bytes of each token (:func:`rlcomp.text.token_bytes.token_bytes`). Only stop
            texts need it.
        draw: maps logits and uniform numbers to tokens.
        generator: random generator on the CPU.
        seeds: seed of each row; a row's numbers then depend on its seed alone. None: they depend on
            the generator, the number of rows and the row's index.
    """

    stops: Sequence[int]
    table: Sequence[bytes]
    draw: Draw
    generator: torch.Generator
    seeds: Sequence[int] | None = None


@dataclass(frozen=True)
class TurnSample:
    """Result of one turn of sampling in a row.

    Attributes:
        tokens: ids, at least one.
        log_probs: log-prob of each token, nats.
        truncated: whether the limit of tokens ended the turn, and no stop did.
        sampling_mask: shape ``[len(tokens), ceil(V / 8)]``, uint8: the sampling mask of each token.
            None if not recorded.
    """

    tokens: list[int]
    log_probs: list[float]
    truncated: bool
    sampling_mask: Tensor | None = None


def join_turns(turn: TurnSample, continuation: TurnSample) -> TurnSample:
    """Return a turn and its continuation as one turn."""
    masks = [m for m in (turn.sampling_mask, continuation.sampling_mask) if m is not None]
    return TurnSample(
        tokens=turn.tokens + continuation.tokens,
        log_probs=turn.log_probs + continuation.log_probs,
        truncated=continuation.truncated,
        sampling_mask=torch.cat(masks) if len(masks) == 2 else None,
    )


class SamplingSession(Protocol):
    """Rows of token ids that grow by sampled tokens and by tokens of the environment.

    Attributes:
        contexts: token ids of each row.
    """

    contexts: list[list[int]]

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Append tokens to a row that the policy did not sample."""
        ...

    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[TurnSample]:
        """Sample one turn in some rows and return it, row by row.

        Args:
            rows: indices of the rows; each occurs once.
            limits: maximum number of tokens of each row in this turn, at least 1.
            texts: byte strings that end a turn, in addition to the policy's stop tokens.
        """
        ...

    def fork(self, row: int) -> int:
        """Add a copy of a row that samples independently; return the copy's index.

        The random numbers of other rows do not change.
        """
        ...

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Return logits of the next token of some rows, shape ``[len(rows), V]``.

        Draws no random number.

        Args:
            rows: indices of the rows, at least one; each occurs once.
        """
        ...

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows; closed rows cannot sample or be forked."""
        ...


# A decode loop that is bound to its model (rlcomp.engine.decode_transformers.decode).
Decode = Callable[..., SampledResponses]


class RecomputeSession:
    """Session that computes the whole context of a row again in every turn, without a KV cache.

    It is the reference for the other sessions, and the only session for models that the packed
    forward pass does not support.

    Args:
        decode: a decode loop (:mod:`rlcomp.engine.decode_transformers`).
        contexts: a non-empty list of token ids for each row.
        sampling: the sampling parameters.
    """

    def __init__(
        self,
        decode: Decode,
        contexts: Sequence[Sequence[int]],
        sampling: SamplingParams,
    ) -> None:
        self.decode = decode
        self.contexts = [list(context) for context in contexts]
        self.sampling = sampling
        self.uniforms = ForkUniforms(len(self.contexts), sampling.generator, sampling.seeds)
        self.sampled = [0] * len(self.contexts)

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Append the tokens to the row's context."""
        self.contexts[row] += tokens

    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[TurnSample]:
        """Sample one turn in some rows and return it, row by row."""
        sampled = self.decode(
            [self.contexts[row] for row in rows],
            group_size=1,
            stop=StopRule(self.sampling.stops, limits, texts, self.sampling.table),
            draw=self.sampling.draw,
            uniforms=TurnUniforms(self.uniforms, rows, [self.sampled[row] for row in rows]),
        )
        turns = split_by_row(sampled)
        for row, turn in zip(rows, turns, strict=True):
            self.contexts[row] += turn.tokens
            self.sampled[row] += len(turn.tokens)
        return turns

    def fork(self, row: int) -> int:
        """Add a row with the same context; return its index."""
        self.contexts.append([*self.contexts[row]])
        self.sampled.append(0)
        self.uniforms.fork()
        return len(self.contexts) - 1

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Return the logits of the next token of some rows, from one pass over their contexts."""
        step_logits = list[Tensor]()

        def record_logits(logits: Tensor, uniform: Tensor) -> SampledTokens:
            step_logits.append(logits)
            return SampledTokens(logits.argmax(-1), uniform[:, 0])

        self.decode(
            [self.contexts[row] for row in rows],
            group_size=1,
            stop=StopRule((), [1] * len(rows), (), self.sampling.table),
            draw=record_logits,
            uniforms=Uniforms(len(rows), torch.Generator()),  # leaves the rows' generator unchanged
        )
        return step_logits[0]

    def close(self, rows: Sequence[int]) -> None:
        """No-op."""


def split_by_row(sampled: SampledResponses) -> list[TurnSample]:
    """Return the result of a decode loop row by row."""
    lengths = sampled.lengths.tolist()
    columns = zip(
        sampled.tokens.tolist(),
        sampled.log_probs.tolist(),
        sampled.truncated.tolist(),
        [None] * len(lengths) if sampled.sampling_mask is None else list(sampled.sampling_mask),
        strict=True,
    )
    return [
        TurnSample(tokens[:n], log_probs[:n], truncated, None if mask is None else mask[:n])
        for n, (tokens, log_probs, truncated, mask) in zip(lengths, columns, strict=True)
    ]

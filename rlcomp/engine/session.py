"""Sessions (generation over several turns) and decode slots (continuous batching).

The classes here compute whole contexts anew: they support any model, and are the reference for the
classes with a KV cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rlcomp.engine.draw import Draw, SampledResponses, SampledTokens
from rlcomp.engine.stopping import StopRule
from rlcomp.engine.uniforms import FixedUniforms, ForkUniforms, TurnUniforms, Uniforms


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
        truncated: whether the limit of tokens ended the turn, and no stop token or text.
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
        """Append tokens that the policy did not sample to a row."""
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


class DecodeSlots(Protocol):
    """Decode slots: rows are sampled some steps at a time, and a new row may begin at any time."""

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Begin a row after each non-empty context; return the rows' numbers, never reused."""
        ...

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, TurnSample]:
        """Sample more tokens of some rows.

        Args:
            numbers: for each row its uniform numbers in [0, 1), float64: one for each token that
                the row may sample in this call, at least one.

        Returns:
            The tokens that each row sampled; ``truncated`` if the row used all of its numbers
            and no stop token ended it.
        """
        ...

    def renew(self) -> None:
        """Update the weights after the model's weights have changed."""
        ...

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows."""
        ...


# A decode loop that is bound to its model (rlcomp.engine.decode_transformers.decode).
Decode = Callable[..., SampledResponses]


class RecomputeSession:
    """Session that computes the whole context of a row again in every turn, without a KV cache.

    Args:
        decode: a decode loop that is bound to its model.
        contexts: a non-empty list of token ids for each row.
        sampling: the sampling parameters.
    """

    def __init__(
        self, decode: Decode, contexts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> None:
        self.decode = decode
        self.contexts = [list(context) for context in contexts]
        self.sampling = sampling
        self.uniforms = ForkUniforms(len(self.contexts), sampling.generator, sampling.seeds)
        self.sampled = [0] * len(self.contexts)  # number of tokens that each row has sampled

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

        # This draw stores the logits: the decode loop takes one step, and its tokens are dropped.
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


class RecomputeSlots:
    """Decode slots that compute a row's whole context again in every call, without a KV cache.

    A context is computed with the current weights, so that the log-prob of a token is the score of
    its row under the weights that sampled it.

    Args:
        decode: a decode loop that is bound to its model.
        stops: tokens that end a row.
        draw: maps logits and uniform numbers to tokens.
    """

    def __init__(self, decode: Decode, stops: Sequence[int], draw: Draw) -> None:
        self.decode = decode
        self.stops = stops
        self.draw = draw
        self.contexts: dict[int, list[int]] = {}
        self._next = 0

    def add(self, contexts: Sequence[Sequence[int]]) -> list[int]:
        """Store the contexts; return the rows' numbers."""
        rows = list(range(self._next, self._next + len(contexts)))
        self._next += len(contexts)
        self.contexts |= {row: list(context) for row, context in zip(rows, contexts, strict=True)}
        return rows

    def advance(self, numbers: Mapping[int, Tensor]) -> dict[int, TurnSample]:
        """Sample more tokens of some rows."""
        sampled = self.decode(
            [self.contexts[row] for row in numbers],
            group_size=1,
            stop=StopRule(self.stops, [len(row_numbers) for row_numbers in numbers.values()]),
            draw=self.draw,
            uniforms=FixedUniforms([*numbers.values()]),
        )
        turns = dict(zip(numbers, split_by_row(sampled), strict=True))
        for row, turn in turns.items():
            self.contexts[row] += turn.tokens
        return turns

    def renew(self) -> None:
        """No-op: every call reads the current weights."""

    def close(self, rows: Sequence[int]) -> None:
        """Remove rows."""
        for row in rows:
            del self.contexts[row]


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

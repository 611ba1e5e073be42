"""Generation over turns: rows that are sampled, read on, and sampled again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rlcomp.engine.draw import Draw, Drawn, ForkUniforms, Sampled, Uniforms
from rlcomp.engine.stopping import StopRule


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters of the rows of a session.

    Attributes:
        stops: tokens that end a turn.
        table: the bytes of each token (:func:`rlcomp.text.token_bytes.token_bytes`); needed if stop
            texts end turns.
        draw: from logits and uniform numbers to tokens.
        generator: on the CPU.
        seeds: of each row, whose numbers then depend on nothing else. None: they depend on the
            generator, the number of rows and the row's place.
    """

    stops: Sequence[int]
    table: Sequence[bytes]
    draw: Draw
    generator: torch.Generator
    seeds: Sequence[int] | None = None


@dataclass(frozen=True)
class Said:
    """Result of one turn of sampling in a row.

    Attributes:
        tokens: ids, at least one.
        log_probs: of each token, nats.
        truncated: whether only its limit ended it.
        kept: shape ``[len(tokens), ceil(V / 8)]``, uint8: the sampling mask of each token; None if
            not recorded.
    """

    tokens: list[int]
    log_probs: list[float]
    truncated: bool
    kept: Tensor | None = None


def joined(turn: Said, more: Said) -> Said:
    """Join a turn and its continuation."""
    both = None if turn.kept is None or more.kept is None else torch.cat([turn.kept, more.kept])
    tokens, log_probs = turn.tokens + more.tokens, turn.log_probs + more.log_probs
    return Said(tokens, log_probs, more.truncated, both)


class Session(Protocol):
    """Rows of token ids that only grow: by sampled tokens and by tokens from outside.

    Attributes:
        contexts: the ids of each row so far.
    """

    contexts: list[list[int]]

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Append tokens that the policy did not sample to a row."""
        ...

    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[Said]:
        """Sample one turn in some rows.

        Args:
            rows: their numbers; each occurs once.
            limits: the most tokens of each row, at least 1.
            texts: byte strings that end a turn, beside the policy's stop tokens.
        """
        ...

    def fork(self, row: int) -> int:
        """Add a copy of a row that then samples independently; return its number.

        The random numbers of other rows do not change.
        """
        ...

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Return logits of the next token of some rows, shape ``[len(rows), V]``; draws nothing.

        Args:
            rows: their numbers, at least one; each occurs once.
        """
        ...

    def close(self, rows: Sequence[int]) -> None:
        """Free the memory of rows that are over; they cannot be forked any more."""
        ...


class TurnUniforms:
    """Uniform numbers of rows that have sampled before: a row's n-th token has its n-th number.

    Args:
        whole: of all rows.
        rows: the rows that sample now.
        counts: number of tokens that each of them has sampled.
    """

    def __init__(self, whole: ForkUniforms, rows: Sequence[int], counts: Sequence[int]) -> None:
        self.whole = whole
        self.rows = len(rows)
        self._places = list(rows)
        self._counts = torch.tensor(counts)
        self._drawn = torch.stack([whole.at(n) for n in range(max(counts, default=0) + 1)])

    def at(self, step: int) -> Tensor:
        """Return numbers in [0, 1) of a step of this turn, shape ``[len(rows), 1]``."""
        numbers = self._counts + step
        while int(numbers.max()) >= len(self._drawn):
            self._drawn = torch.cat([self._drawn, self.whole.at(len(self._drawn))[None]])
        return self._drawn[numbers, self._places]

    def some(self, start: int, count: int) -> Tensor:
        """Return numbers of some steps, shape ``[count, rows, 1]``; some may not be needed."""
        numbers = self._counts + torch.arange(start, start + count)[:, None]
        last = int(numbers.max()) + 1
        self.whole.ahead(last)
        return torch.stack([self.whole.at(n) for n in range(last)])[numbers, self._places]

    def rewind(self, steps: int) -> None:
        """Do nothing: a loop that takes single steps draws nothing in advance."""


# The decode loop of an engine, with its model.
Decode = Callable[..., Sampled]


class Rereading:
    """A session that reads the whole context again in every turn.

    The reference, and the only session for models that the native loop does not support.

    Args:
        decode: a decode loop (:mod:`rlcomp.engine.decode_transformers`).
        contexts: a list of ids for each row, none empty.
        sampling: parameters of sampling.
    """

    def __init__(
        self,
        decode: Decode,
        contexts: Sequence[Sequence[int]],
        sampling: Sampling,
    ) -> None:
        self.decode = decode
        self.contexts = [list(context) for context in contexts]
        self.sampling = sampling
        self.uniforms = ForkUniforms(len(self.contexts), sampling.generator, sampling.seeds)
        self.sampled = [0] * len(self.contexts)

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Store the tokens."""
        self.contexts[row] += tokens

    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[Said]:
        """Sample one turn in some rows."""
        sampled = self.decode(
            [self.contexts[row] for row in rows],
            group_size=1,
            stop=StopRule(self.sampling.stops, limits, texts, self.sampling.table),
            draw=self.sampling.draw,
            uniforms=TurnUniforms(self.uniforms, rows, [self.sampled[row] for row in rows]),
        )
        turns = said_by(sampled)
        for row, turn in zip(rows, turns, strict=True):
            self.contexts[row] += turn.tokens
            self.sampled[row] += len(turn.tokens)
        return turns

    def fork(self, row: int) -> int:
        """Add a row with the same context."""
        self.contexts.append([*self.contexts[row]])
        self.sampled.append(0)
        self.uniforms.fork()
        return len(self.contexts) - 1

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Read the contexts, and return the logits of their next tokens."""
        rows_logits = list[Tensor]()

        def look(logits: Tensor, uniform: Tensor) -> Drawn:
            rows_logits.append(logits)
            return Drawn(logits.argmax(-1), uniform[:, 0])

        self.decode(
            [self.contexts[row] for row in rows],
            group_size=1,
            stop=StopRule((), [1] * len(rows), (), self.sampling.table),
            draw=look,
            uniforms=Uniforms(len(rows), torch.Generator()),  # not the rows' generator
        )
        return rows_logits[0]

    def close(self, rows: Sequence[int]) -> None:
        """No-op."""


def said_by(sampled: Sampled) -> list[Said]:
    """Split the result of a decode loop by row."""
    lengths = sampled.lengths.tolist()
    columns = zip(
        sampled.tokens.tolist(),
        sampled.log_probs.tolist(),
        sampled.truncated.tolist(),
        [None] * len(lengths) if sampled.kept is None else list(sampled.kept),
        strict=True,
    )
    return [
        Said(tokens[:n], log_probs[:n], truncated, None if mask is None else mask[:n])
        for n, (tokens, log_probs, truncated, mask) in zip(lengths, columns, strict=True)
    ]

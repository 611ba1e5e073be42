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
    """How the rows of a session are sampled.

    Attributes:
        stops: tokens that end a turn.
        table: the bytes of each token (:func:`rlcomp.text.token_bytes.token_bytes`); needed where
            texts end turns.
        draw: from logits and uniform numbers to tokens.
        generator: on the CPU.
        seeds: of each row, for numbers that depend on nothing else; None: they depend on the
            generator, the number of rows and the row's place.
    """

    stops: Sequence[int]
    table: Sequence[bytes]
    draw: Draw
    generator: torch.Generator
    seeds: Sequence[int] | None = None


@dataclass(frozen=True)
class Said:
    """What a row sampled in one turn.

    Attributes:
        tokens: ids, at least one.
        log_probs: of each, nats.
        truncated: its limit ended it, and nothing else.
        kept: shape ``[len(tokens), ceil(V / 8)]``, uint8: the tokens each was drawn from; None if
            not recorded.
    """

    tokens: list[int]
    log_probs: list[float]
    truncated: bool
    kept: Tensor | None = None


def joined(turn: Said, more: Said) -> Said:
    """Return a turn that went on."""
    both = None if turn.kept is None or more.kept is None else torch.cat([turn.kept, more.kept])
    tokens, log_probs = turn.tokens + more.tokens, turn.log_probs + more.log_probs
    return Said(tokens, log_probs, more.truncated, both)


class Session(Protocol):
    """Rows of token ids that only grow: by what is sampled, and by what is read to them.

    Attributes:
        contexts: the ids of each row so far.
    """

    contexts: list[list[int]]

    def extend(self, row: int, tokens: Sequence[int]) -> None:
        """Read tokens behind a row, which the policy did not sample."""
        ...

    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[Said]:
        """Sample one turn in some rows.

        Args:
            rows: their numbers, each once.
            limits: the most tokens of each, at least 1.
            texts: byte strings that end a turn, beside the policy's stop tokens.
        """
        ...

    def fork(self, row: int) -> int:
        """Add a row that has read and said the same, and samples on by itself; its number.

        The numbers that other rows draw stay as they are.
        """
        ...

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Logits of the next token behind some rows, shape ``[len(rows), V]``; changes no draw.

        Args:
            rows: their numbers, each once; at least one.
        """
        ...

    def close(self, rows: Sequence[int]) -> None:
        """Free what rows hold: they are over, and cannot be forked."""
        ...


class TurnUniforms:
    """The uniform numbers of rows that have sampled before: a row's n-th token has its n-th number.

    Args:
        whole: of all rows.
        rows: those that sample now.
        counts: how many tokens each of them has sampled.
    """

    def __init__(self, whole: ForkUniforms, rows: Sequence[int], counts: Sequence[int]) -> None:
        self.whole = whole
        self.rows = len(rows)
        self._places = list(rows)
        self._counts = torch.tensor(counts)
        self._drawn = torch.stack([whole.at(n) for n in range(max(counts, default=0) + 1)])

    def at(self, step: int) -> Tensor:
        """Numbers in [0, 1) of a step of this turn, shape ``[len(rows), 1]``."""
        numbers = self._counts + step
        while int(numbers.max()) >= len(self._drawn):
            self._drawn = torch.cat([self._drawn, self.whole.at(len(self._drawn))[None]])
        return self._drawn[numbers, self._places]

    def some(self, start: int, count: int) -> Tensor:
        """Numbers of some steps, for which there may be no need, shape ``[count, rows, 1]``."""
        numbers = self._counts + torch.arange(start, start + count)[:, None]
        last = int(numbers.max()) + 1
        self.whole.ahead(last)
        return torch.stack([self.whole.at(n) for n in range(last)])[numbers, self._places]

    def rewind(self, steps: int) -> None:
        """Nothing: whoever takes a step at a time draws nothing in advance."""


# The decode loop of an engine, with its model.
Decode = Callable[..., Sampled]


class Rereading:
    """A session that reads the whole context again in every turn.

    The reference, and what there is for models that our own loop does not know.

    Args:
        decode: a decode loop (:mod:`rlcomp.engine.decode_transformers`).
        contexts: a list of ids for each row, none empty.
        sampling: how they are sampled.
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
        """Note the tokens."""
        self.contexts[row] += tokens

    def generate(
        self, rows: Sequence[int], *, limits: Sequence[int], texts: Sequence[bytes] = ()
    ) -> list[Said]:
        """Sample one turn in some rows."""
        found = self.decode(
            [self.contexts[row] for row in rows],
            group_size=1,
            stop=StopRule(self.sampling.stops, limits, texts, self.sampling.table),
            draw=self.sampling.draw,
            uniforms=TurnUniforms(self.uniforms, rows, [self.sampled[row] for row in rows]),
        )
        said = said_by(found)
        for row, turn in zip(rows, said, strict=True):
            self.contexts[row] += turn.tokens
            self.sampled[row] += len(turn.tokens)
        return said

    def fork(self, row: int) -> int:
        """Add a row with the same context."""
        self.contexts.append([*self.contexts[row]])
        self.sampled.append(0)
        self.uniforms.fork()
        return len(self.contexts) - 1

    def logits(self, rows: Sequence[int]) -> Tensor:
        """Read the contexts, and look at what a token would be drawn from."""
        seen = list[Tensor]()

        def look(logits: Tensor, uniform: Tensor) -> Drawn:
            seen.append(logits)
            return Drawn(logits.argmax(-1), uniform[:, 0])

        self.decode(
            [self.contexts[row] for row in rows],
            group_size=1,
            stop=StopRule((), [1] * len(rows), (), self.sampling.table),
            draw=look,
            uniforms=Uniforms(len(rows), torch.Generator()),  # its own: what rows draw stays
        )
        return seen[0]

    def close(self, rows: Sequence[int]) -> None:
        """Nothing is held."""


def said_by(found: Sampled) -> list[Said]:
    """What each row of a decode loop sampled."""
    lengths = found.lengths.tolist()
    columns = zip(
        found.tokens.tolist(),
        found.log_probs.tolist(),
        found.truncated.tolist(),
        [None] * len(lengths) if found.kept is None else list(found.kept),
        strict=True,
    )
    return [
        Said(tokens[:n], log_probs[:n], truncated, None if kept is None else kept[:n])
        for n, (tokens, log_probs, truncated, kept) in zip(lengths, columns, strict=True)
    ]

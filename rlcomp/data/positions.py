"""Position filters, the interface that chooses prediction targets, and spans of tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import NamedTuple, Protocol


class Span(NamedTuple):
    """A span of a text in UTF-8 byte offsets, at character boundaries."""

    start: int
    stop: int


@dataclass(frozen=True)
class Tokenised:
    """A text and its tokens.

    Attributes:
        text: the text.
        ids: its tokens.
        ends: the byte offset (UTF-8) at which each token ends; non-decreasing.
    """

    text: str
    ids: Sequence[int]
    ends: Sequence[int]


class Position(Protocol):
    """Interface of position filters: choose target spans of texts."""

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return the target spans of each text, in order; deterministic.

        It takes all texts at once, because a filter may choose a share of the whole corpus.
        """
        ...


def token_spans(document: Tokenised, min_context: int) -> dict[int, Span]:
    r"""Return the spans at which a next token can be predicted.

    Args:
        document: the text.
        min_context: the least number of tokens before a span.

    Returns:
        By the index of a token, the span from its start to the end of the first token that ends a
        character. Tokens that start inside a character, and tokens without bytes, are left out.

    Examples:
        >>> token_spans(Tokenised("né!", ids=[5, 6, 7, 8], ends=[1, 2, 3, 4]), 1)
        {1: Span(start=1, stop=3), 3: Span(start=3, stop=4)}
    """
    data = document.text.encode()
    bounds = [0, *document.ends]
    whole = [is_boundary(data, place) for place in bounds]
    spans: dict[int, Span] = {}
    stop = 0
    for index in reversed(range(min_context, len(document.ends))):
        stop = bounds[index + 1] if whole[index + 1] else stop
        if whole[index] and bounds[index] < bounds[index + 1]:
            spans[index] = Span(bounds[index], stop)
    return dict(reversed(spans.items()))


def is_boundary(data: bytes, place: int) -> bool:
    """Return whether a byte offset in UTF-8 is between two characters or at an end."""
    return place in (0, len(data)) or data[place] & 0xC0 != 0x80


def token_ends(document: Tokenised, start: int, horizon: int) -> tuple[int, ...]:
    """Return the byte offsets at which the next tokens of a text end.

    Args:
        document: the text.
        start: a byte before its last one.
        horizon: the most tokens; fewer, so that the last one ends a character. The tokens of the
            first character are always taken.

    Returns:
        Offsets relative to ``start``, increasing.

    Examples:
        >>> token_ends(Tokenised("né!é", ids=range(6), ends=[1, 2, 3, 4, 5, 6]), 1, 4)
        (1, 2, 3)
    """
    data = document.text.encode()
    first = bisect_right(document.ends, start)
    count = len(document.ends)
    whole = (n for n in range(first, count) if is_boundary(data, document.ends[n]))
    least = next(whole)
    last = max(takewhile(lambda n: n < first + horizon, whole), default=least)
    return tuple(dict.fromkeys(end - start for end in document.ends[first : last + 1]))


def context_start(document: Tokenised, start: int, max_context: int) -> int:
    """Return the offset where the last ``max_context`` tokens before a byte begin.

    It is moved forward to the start of a character.

    Examples:
        >>> context_start(Tokenised("aébc", ids=range(5), ends=[1, 2, 3, 4, 5]), 4, 2)
        3
    """
    before = bisect_right(document.ends, start)
    begin = document.ends[before - max_context - 1] if before > max_context else 0
    data = document.text.encode()
    return next(place for place in range(begin, start + 1) if is_boundary(data, place))


def byte_spans(text: str, places: Iterable[tuple[int, int]]) -> list[Span]:
    """Convert spans from character to byte offsets.

    Examples:
        >>> byte_spans("né!", [(1, 2), (2, 3)])
        [Span(start=1, stop=3), Span(start=3, stop=4)]
    """
    bytes_before = [0, *accumulate(len(char.encode()) for char in text)]
    return [Span(bytes_before[start], bytes_before[stop]) for start, stop in places]

"""Spans of texts, and tasks of them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import ClassVar, NamedTuple, Protocol

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Checked
from rlcomp.data.masked_text import normalised_span, span_problem
from rlcomp.data.template import check_wording
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Task
from rlcomp.text.token_bytes import encode_all_with_ends


class Span(NamedTuple):
    """A span of a text in UTF-8 byte offsets, at character boundaries."""

    start: int
    stop: int


@dataclass(frozen=True)
class Tokenised:
    """A text and its tokens.

    Attributes:
        text: the whole text.
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

        All texts come at once, because a filter may choose a share of the whole corpus.
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
    on_boundary = [is_boundary(data, offset) for offset in bounds]
    spans: dict[int, Span] = {}
    stop = 0
    for index in reversed(range(min_context, len(document.ends))):
        stop = bounds[index + 1] if on_boundary[index + 1] else stop
        if on_boundary[index] and bounds[index] < bounds[index + 1]:
            spans[index] = Span(bounds[index], stop)
    return dict(reversed(spans.items()))


def is_boundary(data: bytes, offset: int) -> bool:
    """Return whether a byte offset in UTF-8 is between two characters or at an end."""
    return offset in (0, len(data)) or data[offset] & 0xC0 != 0x80


def token_ends(document: Tokenised, start: int, horizon: int) -> tuple[int, ...]:
    """Return the byte offsets at which the next tokens of a text end.

    Args:
        document: the text.
        start: a byte offset in the text, before its end.
        horizon: maximum number of tokens. Fewer are taken if the last one would end within a
            character; the tokens of the first character are always taken.

    Returns:
        Offsets relative to ``start``, increasing.

    Examples:
        >>> token_ends(Tokenised("né!é", ids=range(6), ends=[1, 2, 3, 4, 5, 6]), 1, 4)
        (1, 2, 3)
    """
    data = document.text.encode()
    first = bisect_right(document.ends, start)
    count = len(document.ends)
    # Indices of the tokens that end a character.
    complete = (index for index in range(first, count) if is_boundary(data, document.ends[index]))
    first_complete = next(complete)
    last = max(takewhile(lambda index: index < first + horizon, complete), default=first_complete)
    return tuple(dict.fromkeys(end - start for end in document.ends[first : last + 1]))


def context_start(document: Tokenised, start: int, max_context: int) -> int:
    """Return the offset where the last ``max_context`` tokens before a byte begin.

    The offset is moved forward to the start of a character. It is 0 if there are fewer tokens.

    Examples:
        >>> context_start(Tokenised("aébc", ids=range(5), ends=[1, 2, 3, 4, 5]), 4, 2)
        3
    """
    num_before = bisect_right(document.ends, start)
    first = document.ends[num_before - max_context - 1] if num_before > max_context else 0
    data = document.text.encode()
    return next(offset for offset in range(first, start + 1) if is_boundary(data, offset))


def byte_spans(text: str, spans: Iterable[tuple[int, int]]) -> list[Span]:
    """Convert spans from character to byte offsets.

    Examples:
        >>> byte_spans("né!", [(1, 2), (2, 3)])
        [Span(start=1, stop=3), Span(start=3, stop=4)]
    """
    bytes_before = [0, *accumulate(len(char.encode()) for char in text)]
    return [Span(bytes_before[start], bytes_before[stop]) for start, stop in spans]


class CorpusSpans:
    """The chosen spans of a corpus, as a flat indexed sequence.

    Args:
        corpus: the task whose answers are the texts.
        tokenizer: a fast tokenizer.
        position: chooses the spans.

    Raises:
        DataError: no span is chosen.
    """

    def __init__(
        self, corpus: Task, tokenizer: PreTrainedTokenizerBase, position: Position
    ) -> None:
        examples = [corpus.example(index) for index in range(len(corpus))]
        texts = [example.answer for example in examples]
        self.documents = [
            Tokenised(text, array("q", ids), array("q", ends))
            for text, (ids, ends) in zip(texts, encode_all_with_ends(tokenizer, texts), strict=True)
        ]
        self._sources = [example.held_out_by for example in examples]
        chosen = position.spans(self.documents)
        # A flat array: Python objects would take much memory, several for each token.
        self._bounds = array("q", (bound for spans in chosen for span in spans for bound in span))
        self._stops = list(accumulate(map(len, chosen)))
        if not len(self):
            raise DataError(
                f"position chooses no span of the {len(examples)} documents of corpus: lower its "
                "requirements, or take a corpus of longer documents"
            )

    def __len__(self) -> int:
        """Return the number of spans."""
        return self._stops[-1]

    def of(self, document: int) -> list[Span]:
        """Return the spans of one document, by its index."""
        first = self._stops[document - 1] if document else 0
        bounds = self._bounds[2 * first : 2 * self._stops[document]]
        return [Span(start, stop) for start, stop in zip(bounds[::2], bounds[1::2], strict=True)]

    def __getitem__(self, index: int) -> tuple[Tokenised, Span]:
        """Return the document of a span, and the span."""
        start, stop = self._bounds[2 * index : 2 * index + 2]
        return self.documents[bisect_right(self._stops, index)], Span(start, stop)

    def source(self, index: int) -> str:
        """Return the held-out key of a span's document; the same as in the corpus."""
        return self._sources[bisect_right(self._stops, index)]


class Maskable:
    """Position filter: keeps spans that can be masked (visible, not the whole text)."""

    def __init__(self, position: Position) -> None:
        self.position = position

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return the spans of each text that can be masked, in order."""
        chosen = self.position.spans(documents)
        return [
            [span for span in spans if _is_maskable(document.text, span)]
            for document, spans in zip(documents, chosen, strict=True)
        ]


def _is_maskable(text: str, span: Span) -> bool:
    hidden = text.encode()[span.start : span.stop].decode()
    return span_problem(text, hidden, longest_words=len(text), largest_share=1.0) is None


class SpanTask(metaclass=Checked):
    """Task with one example for each chosen span of a corpus.

    Subclasses define ``example``.

    Attributes:
        prompt_field: the field of ``template``, for the prompt's text.
        response_fields: the fields of ``response``.

    Args:
        corpus: the task whose answers are the documents.
        tokenizer: makes the tokens for ``position``.
        position: chooses the spans.
        template: the prompt's wording.
        response: the demonstration's wording.
        thought: makes the demonstration's thought from the prompt's text; None: no thought.
        held_out: share of the documents that only evaluators see.

    Raises:
        ConfigError: a template cannot be used.
        DataError: no span is chosen, or a document cannot be written in tokens.
    """

    prompt_field: ClassVar[str] = "text"
    response_fields: ClassVar[tuple[str, ...]] = ("thought", "target", "continuation")

    def __init__(
        self,
        *,
        corpus: Task,
        tokenizer: PreTrainedTokenizerBase,
        position: Position,
        template: str,
        response: str,
        thought: Callable[[str], str] | None,
        held_out: float,
    ) -> None:
        check_wording("template", template, fields=[self.prompt_field], needed=[self.prompt_field])
        check_wording("response", response, fields=self.response_fields)
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.position = position
        self.template = template
        self.response = response
        self.thought = thought
        self.held_out = held_out
        self.spans = CorpusSpans(corpus, tokenizer, position)

    def __len__(self) -> int:
        """Return the number of spans, training and held out."""
        return len(self.spans)

    def prompt(self, text: str) -> str:
        """Return the prompt of a text."""
        return self.template.format_map({self.prompt_field: text})

    def demonstration(self, text: str, target: str, continuation: str) -> str:
        """Return the response to imitate: the thought about the text, then the target."""
        thought = "" if self.thought is None else self.thought(text)
        return self.response.format(thought=thought, target=target, continuation=continuation)

    def document_and_span(self, index: int) -> tuple[str, str]:
        """Return the document of a span, and the normalised span (:func:`normalised_span`)."""
        document, span = self.spans[index]
        target = document.text.encode()[span.start : span.stop].decode()
        return document.text, normalised_span(target)

"""Spans of a corpus by index, chosen by a position filter."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from transformers import PreTrainedTokenizerBase

from rlcomp.data.masked_text import span_problem
from rlcomp.data.positions import Position, Span, Tokenised
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Task
from rlcomp.text.token_bytes import all_with_ends


class CorpusSpans:
    """The chosen spans of a corpus, as a flat indexed sequence.

    Args:
        corpus: its answers are the texts.
        tokenizer: cuts them into tokens; must be a fast one.
        position: chooses the spans.

    Raises:
        DataError: no span is chosen.
    """

    def __init__(
        self, corpus: Task, tokenizer: PreTrainedTokenizerBase, position: Position
    ) -> None:
        examples = [corpus.example(index) for index in range(len(corpus))]
        self.documents = _tokenised(tokenizer, [example.answer for example in examples])
        self._sources = [example.held_out_by for example in examples]
        chosen = position.spans(self.documents)
        # A flat array: Python objects would take much memory, several for each token.
        self._places = array("q", (place for spans in chosen for span in spans for place in span))
        self._stops = list(accumulate(map(len, chosen)))
        if not len(self):
            raise DataError(
                f"position chooses no span of the {len(examples)} documents of corpus: ask less of "
                "a position, or give a corpus of longer documents"
            )

    def __len__(self) -> int:
        """Return the number of spans."""
        return self._stops[-1]

    def of(self, document: int) -> list[Span]:
        """Return the spans of one document, by its index."""
        first = self._stops[document - 1] if document else 0
        places = self._places[2 * first : 2 * self._stops[document]]
        return [Span(start, stop) for start, stop in zip(places[::2], places[1::2], strict=True)]

    def __getitem__(self, index: int) -> tuple[Tokenised, Span]:
        """Return the document of a span, and the span."""
        start, stop = self._places[2 * index : 2 * index + 2]
        return self.documents[bisect_right(self._stops, index)], Span(start, stop)

    def source(self, index: int) -> str:
        """Return the held-out key of a span's document; the same as in the corpus."""
        return self._sources[bisect_right(self._stops, index)]


def _tokenised(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[Tokenised]:
    encoded = zip(texts, all_with_ends(tokenizer, texts), strict=True)
    return [Tokenised(text, array("q", ids), array("q", ends)) for text, (ids, ends) in encoded]


class Maskable:
    """Position filter: keeps spans that can be masked (visible, not the whole text).

    Args:
        position: chooses the spans.
    """

    def __init__(self, position: Position) -> None:
        self.position = position

    def spans(self, documents: Sequence[Tokenised]) -> list[list[Span]]:
        """Return the spans of each text that can be masked, in order."""
        chosen = self.position.spans(documents)
        return [
            [span for span in spans if _maskable(document.text, span)]
            for document, spans in zip(documents, chosen, strict=True)
        ]


def _maskable(text: str, span: Span) -> bool:
    wanted = text.encode()[span.start : span.stop].decode()
    return span_problem(text, wanted, longest_words=len(text), largest_share=1.0) is None

"""Base class of tasks with spans of a corpus as examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Checked
from rlcomp.data.masked_text import normalised_span
from rlcomp.data.positions import Position
from rlcomp.data.spans import CorpusSpans
from rlcomp.data.template import check_wording
from rlcomp.interfaces.task import Task


class SpanTask(metaclass=Checked):
    """Task with one example for each chosen span of a corpus.

    Attributes:
        shown: the template's field for the prompt's text.
        told: the fields of the response.

    Args:
        corpus: its answers are the documents.
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

    shown: ClassVar[str] = "text"
    told: ClassVar[tuple[str, ...]] = ("thought", "target", "continuation")

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
        check_wording("template", template, fields=[self.shown], needed=[self.shown])
        check_wording("response", response, fields=self.told)
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.position = position
        self.template = template
        self.response = response
        self.thought = thought
        self.held_out = held_out
        self.asked = CorpusSpans(corpus, tokenizer, position)

    def __len__(self) -> int:
        """Return the number of spans, training and held out."""
        return len(self.asked)

    def prompt(self, text: str) -> str:
        """Return the prompt of a text."""
        return self.template.format_map({self.shown: text})

    def demonstration(self, text: str, target: str, continuation: str) -> str:
        """Return the response to imitate: the thought about the text, then the target."""
        thought = "" if self.thought is None else self.thought(text)
        return self.response.format(thought=thought, target=target, continuation=continuation)

    def masked(self, index: int) -> tuple[str, str]:
        """Return the document of a span, and the span without white space at its ends."""
        document, span = self.asked[index]
        target = document.text.encode()[span.start : span.stop].decode()
        return document.text, normalised_span(target)

"""Masked-span prediction task (PretrainZero)."""

from __future__ import annotations

from collections.abc import Callable

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.data.masked_text import mask_span, normalised_span
from rlcomp.data.positions import Position
from rlcomp.data.spans import CorpusSpans, Maskable
from rlcomp.data.template import check_wording
from rlcomp.interfaces.task import Example, Task


class MaskedSpan(metaclass=Checked):
    r"""Masked-span prediction: the prompt is a document with every occurrence of a span masked.

    The answer is the whole span, without white space at its ends. A document is held out as a
    whole. Spans of white space only, or of a whole document, are not used.

    Templates are those of ``str.format``: ``{field}``, and ``{{`` and ``}}`` for braces.

    Args:
        corpus: its answers are the documents.
        tokenizer: its tokens are those that ``position`` sees.
        position: which spans.
        template: the prompt's wording of the masked ``{text}``.
        mask: what stands in place of the span.
        response: the demonstration's wording of the ``{thought}`` and the ``{target}``, also called
            ``{continuation}``.
        thought: what demonstrations think, from the masked text; null: nothing.
        held_out: share of the documents that only evaluators see; that of the corpus, if a policy
            is trained on both.

    Raises:
        ConfigError: a template cannot be used.
        DataError: no span is chosen, or a document cannot be written in tokens.

    Source:
        PretrainZero's predictor, arXiv:2512.03442.
    """

    def __init__(
        self,
        *,
        corpus: Task,
        tokenizer: PreTrainedTokenizerBase,
        position: Position,
        template: NonEmptyText = "{text}<think>",
        mask: NonEmptyText = "[mask]",
        response: NonEmptyText = r"{thought}</think>\boxed{{{target}}}",
        thought: Callable[[str], str] | None = None,
        held_out: Fraction = 0.1,
    ) -> None:
        check_wording("template", template, fields=["text"], needed=["text"])
        check_wording("response", response, fields=["thought", "target", "continuation"])
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.position = position
        self.template = template
        self.mask = mask
        self.response = response
        self.thought = thought
        self.held_out = held_out
        self.asked = CorpusSpans(corpus, tokenizer, Maskable(position))

    def __len__(self) -> int:
        """How many spans there are, training and held out."""
        return len(self.asked)

    def example(self, index: int) -> Example:
        """The example of one span."""
        document, span = self.asked[index]
        target = normalised_span(document.text.encode()[span.start : span.stop].decode())
        masked = mask_span(document.text, target, self.mask)
        thought = "" if self.thought is None else self.thought(masked)
        return Example(
            prompt=self.template.format(text=masked),
            answer=target,
            demonstration=self.response.format(thought=thought, target=target, continuation=target),
            source=self.asked.source(index),
        )

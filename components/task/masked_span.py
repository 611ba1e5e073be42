"""Masked-span prediction, and proposals of masks."""

from __future__ import annotations

from collections.abc import Callable

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Fraction, NonEmptyText
from rlcomp.data.masked_text import mask_span
from rlcomp.data.spans import Maskable, Position, SpanTask
from rlcomp.interfaces.task import Example, Task


class MaskedSpan(SpanTask):
    r"""Task of masked-span prediction: a document with every occurrence of a span masked.

    The prompt is the masked document. The answer is the whole span, without white space at its
    ends. A document is held out as a whole. Spans of white space only, or of a whole document, are
    not used.

    Templates have the syntax of ``str.format``: ``{field}``, and ``{{`` and ``}}`` for braces.

    Args:
        corpus: the task whose answers are the documents.
        tokenizer: splits the documents into tokens, from which ``position`` chooses.
        position: filter that chooses the spans (:class:`rlcomp.data.spans.Position`).
        template: the prompt's wording of the masked ``{text}``.
        mask: the text that replaces the span.
        response: the demonstration's wording of the ``{thought}`` and the ``{target}``, also called
            ``{continuation}``.
        thought: function from the masked text to the demonstration's thought; null: none.
        held_out: share of the documents that only evaluators see; must equal the corpus's if a
            policy is trained on both.

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
        super().__init__(
            corpus=corpus,
            tokenizer=tokenizer,
            position=Maskable(position),
            template=template,
            response=response,
            thought=thought,
            held_out=held_out,
        )
        self.mask = mask

    def example(self, index: int) -> Example:
        """Return the example of one span."""
        # Despite its name, the method returns the document without a mask, and the span.
        document, target = self.document_and_span(index)
        masked = mask_span(document, target, self.mask)
        return Example(
            prompt=self.prompt(masked),
            answer=target,
            demonstration=self.demonstration(masked, target, target),
            source=self.spans.source(index),
        )


class MaskProposal(SpanTask):
    r"""Mask-proposal task: the prompt is a document, the demonstration a span to mask.

    It serves the SFT warm start of PretrainZero's generator. The answer is the document. Documents
    are held out as a whole.

    Templates have the syntax of ``str.format``: ``{field}``, and ``{{`` and ``}}`` for braces.

    Args:
        corpus: the task whose answers are the documents.
        tokenizer: splits the documents into tokens, from which ``position`` chooses.
        position: filter that chooses the proposed spans, such as random words
            (:class:`rlcomp.data.spans.Position`).
        template: the prompt's wording of the ``{text}``.
        response: the demonstration's wording of the ``{thought}`` and the ``{target}``.
        thought: function from the text to the demonstration's thought; null: none.
        held_out: share of the documents that only evaluators see; must equal the corpus's if a
            policy is trained on both.

    Raises:
        ConfigError: a template cannot be used.
        DataError: no span is chosen, or a document cannot be written in tokens.

    Source:
        PretrainZero's generator, arXiv:2512.03442, and its warm-up on random spans.
    """

    response_fields = ("thought", "target")

    def __init__(
        self,
        *,
        corpus: Task,
        tokenizer: PreTrainedTokenizerBase,
        position: Position,
        template: NonEmptyText = "{text}<mask>",
        response: NonEmptyText = r"{thought}\mask{{{target}}}",
        thought: Callable[[str], str] | None = None,
        held_out: Fraction = 0.1,
    ) -> None:
        super().__init__(
            corpus=corpus,
            tokenizer=tokenizer,
            position=Maskable(position),
            template=template,
            response=response,
            thought=thought,
            held_out=held_out,
        )

    def example(self, index: int) -> Example:
        """Return the example of a proposal."""
        document, target = self.document_and_span(index)
        return Example(
            prompt=self.prompt(document),
            answer=document,
            demonstration=self.demonstration(document, target, target),
            source=self.spans.source(index),
        )

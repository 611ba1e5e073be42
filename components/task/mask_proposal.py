"""Mask-proposal task: propose a span of a text to mask (PretrainZero)."""

from __future__ import annotations

from collections.abc import Callable

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.data.masked_text import normalised_span
from rlcomp.data.positions import Position
from rlcomp.data.spans import CorpusSpans, Maskable
from rlcomp.data.template import check_wording
from rlcomp.interfaces.task import Example, Task


class MaskProposal(metaclass=Checked):
    r"""Mask-proposal task: the prompt is a document, the demonstration a span to mask.

    SFT warm start of PretrainZero's generator. The answer is the document. It is held out as a
    whole.

    Templates are those of ``str.format``: ``{field}``, and ``{{`` and ``}}`` for braces.

    Args:
        corpus: its answers are the documents.
        tokenizer: its tokens are those that ``position`` sees.
        position: the spans that are proposed, such as random words.
        template: the prompt's wording of the ``{text}``.
        response: the demonstration's wording of the ``{thought}`` and the ``{target}``.
        thought: what demonstrations think, from the text; null: nothing.
        held_out: share of the documents that only evaluators see; that of the corpus, if a policy
            is trained on both.

    Raises:
        ConfigError: a template cannot be used.
        DataError: no span is chosen, or a document cannot be written in tokens.

    Source:
        PretrainZero's generator, arXiv:2512.03442, and its warm-up on random spans.
    """

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
        check_wording("template", template, fields=["text"], needed=["text"])
        check_wording("response", response, fields=["thought", "target"])
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.position = position
        self.template = template
        self.response = response
        self.thought = thought
        self.held_out = held_out
        self.asked = CorpusSpans(corpus, tokenizer, Maskable(position))

    def __len__(self) -> int:
        """How many proposals there are, training and held out; a document occurs repeatedly."""
        return len(self.asked)

    def example(self, index: int) -> Example:
        """One proposal."""
        document, span = self.asked[index]
        target = normalised_span(document.text.encode()[span.start : span.stop].decode())
        thought = "" if self.thought is None else self.thought(document.text)
        return Example(
            prompt=self.template.format(text=document.text),
            answer=document.text,
            demonstration=self.response.format(thought=thought, target=target),
            source=self.asked.source(index),
        )

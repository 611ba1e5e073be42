"""Next-token reasoning."""

from __future__ import annotations

from collections.abc import Callable

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt
from rlcomp.data.spans import (
    CorpusSpans,
    Position,
    Span,
    SpanTask,
    Tokenised,
    context_start,
    is_boundary,
    token_ends,
)
from rlcomp.data.template import check_wording
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example, Task


class NextToken(SpanTask):
    r"""Next-token reasoning (RPT): the prompt is a document up to a position.

    The policy thinks, then predicts the continuation. The answer is the true continuation;
    ``answer_ends`` marks its token boundaries, so that only whole tokens may be predicted. The
    demonstration predicts the first token (up to a whole character), or with ``whole_spans`` the
    whole answer. A document is held out as a whole.

    Templates have the syntax of ``str.format``: ``{field}``, and ``{{`` and ``}}`` for braces.

    Args:
        corpus: its answers are the documents.
        tokenizer: the tokenizer that defines tokens: the policy's, or another fast one.
        position: choice of the positions.
        template: the prompt's wording of the ``{context}``.
        response: the demonstration's wording of the ``{thought}``, the ``{target}`` and the
            ``{continuation}``, which is the whole answer.
        horizon: maximum number of tokens of the answer.
        max_context: maximum number of tokens of the context, the last ones before the position;
            null: all.
        whole_spans: whether the answer is the whole span that ``position`` chose; ``answer_ends``
            then marks only its end, and ``horizon`` has no effect.
        thought: function from the context to the demonstration's thought; null: none.
        held_out: share of the documents that only evaluators see; must equal the corpus's if a
            policy is trained on both.

    Raises:
        ConfigError: a template cannot be used.
        DataError: no position is chosen, or a document cannot be written in tokens.

    Source:
        RPT, arXiv:2506.08007; with whole sentences the next segment of RLPT, arXiv:2509.19249.
    """

    prompt_field = "context"

    def __init__(
        self,
        *,
        corpus: Task,
        tokenizer: PreTrainedTokenizerBase,
        position: Position,
        template: NonEmptyText = "{context}<think>",
        response: NonEmptyText = r"{thought}</think>\boxed{{{target}}}",
        horizon: PositiveInt = 32,
        max_context: PositiveInt | None = None,
        whole_spans: bool = False,
        thought: Callable[[str], str] | None = None,
        held_out: Fraction = 0.1,
    ) -> None:
        super().__init__(
            corpus=corpus,
            tokenizer=tokenizer,
            position=position,
            template=template,
            response=response,
            thought=thought,
            held_out=held_out,
        )
        self.horizon = horizon
        self.max_context = max_context
        self.whole_spans = whole_spans

    def example(self, index: int) -> Example:
        """Return the example of one position."""
        document, span = self.spans[index]
        data = document.text.encode()
        ends = self._ends(document, span)
        first = next(end for end in ends if is_boundary(data, span.start + end))
        context = data[self._context_start(document, span.start) : span.start].decode()
        target = data[span.start : span.start + first].decode()
        answer = data[span.start : span.start + ends[-1]].decode()
        return Example(
            prompt=self.prompt(context),
            answer=answer,
            demonstration=self.demonstration(context, target, answer),
            answer_ends=ends,
            source=self.spans.source(index),
        )

    def _ends(self, document: Tokenised, span: Span) -> tuple[int, ...]:
        """Return ``answer_ends``, in bytes from the beginning of the span."""
        if self.whole_spans:
            return (span.stop - span.start,)
        return token_ends(document, span.start, self.horizon)

    def _context_start(self, document: Tokenised, start: int) -> int:
        return 0 if self.max_context is None else context_start(document, start, self.max_context)


class AnnotatedText(metaclass=Checked):
    r"""Task of documents with inserted predictions of the next token, in the format of RPT.

    ``"to be or not"`` with a note before ``" or"`` is
    ``"to be<think></think>\boxed{ or} or not"``. SFT on it teaches the form of an answer many
    times per document, beside the next tokens. The notes of a document are at every ``period``-th
    of its positions. The first note of document ``i`` is at position number ``i % period``, from 0,
    so that the documents differ in their places.

    Templates have the syntax of ``str.format``: ``{field}``, and ``{{`` and ``}}`` for braces.

    Args:
        corpus: its answers are the documents.
        tokenizer: the tokenizer that defines the tokens for ``position``.
        position: choice of the positions of notes; a note predicts its span.
        note: the wording of a note on the ``{target}``. A note without this field is a mark only:
            the text that it would predict follows anyway.
        period: number of positions from one note to the next.

    Raises:
        ConfigError: the note cannot be used.
        DataError: no position is chosen, a document cannot be written in tokens, or (in
            :meth:`example`) a document does not begin with its prompt.
    """

    def __init__(
        self,
        *,
        corpus: Task,
        tokenizer: PreTrainedTokenizerBase,
        position: Position,
        note: NonEmptyText = r"<think></think>\boxed{{{target}}}",
        period: PositiveInt = 8,
    ) -> None:
        check_wording("note", note, fields=["target"])
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.position = position
        self.note = note
        self.period = period
        self.held_out = corpus.held_out
        self.spans = CorpusSpans(corpus, tokenizer, position)

    def __len__(self) -> int:
        """Return the number of the corpus's documents."""
        return len(self.corpus)

    def example(self, index: int) -> Example:
        """Return a document with its notes."""
        plain = self.corpus.example(index)
        data = plain.answer.encode()
        if not plain.answer.startswith(plain.prompt):
            raise DataError(
                f"document {index} of corpus does not begin with its prompt {plain.prompt[:60]!r}: "
                "take a corpus of texts, such as task@corpus=text"
            )
        pieces: list[str] = []
        piece_start = len(plain.prompt.encode())  # in bytes of the document
        spans = [span for span in self.spans.of(index) if span.start >= piece_start]
        for start, stop in spans[index % self.period :: self.period]:
            note = self.note.format(target=data[start:stop].decode())
            pieces += [data[piece_start:start].decode(), note]
            piece_start = start
        text = "".join(pieces) + data[piece_start:].decode()
        return Example(plain.prompt, plain.answer, text, source=plain.source)

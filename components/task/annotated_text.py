"""Text annotated with next-token predictions, as SFT data for RPT's answer format."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt
from rlcomp.data.positions import Position
from rlcomp.data.spans import CorpusSpans
from rlcomp.data.template import check_wording
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example, Task


class AnnotatedText(metaclass=Checked):
    r"""Task of documents with inserted predictions of the next token, in the format of RPT.

    ``"to be or not"`` with a note before ``" or"`` is
    ``"to be<think></think>\boxed{ or} or not"``. SFT on it teaches the form of an answer many
    times per document, beside the next tokens. The notes of a document are at every ``period``-th
    of its positions, the first one at a random place among the first ``period``.

    Templates are those of ``str.format``: ``{field}``, and ``{{`` and ``}}`` for braces.

    Args:
        corpus: its answers are the documents.
        tokenizer: the tokenizer of the tokens for ``position``.
        position: choice of the positions of notes; a note predicts its span.
        note: the wording of a note on the ``{target}``; without the field the text itself follows.
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
        self.asked = CorpusSpans(corpus, tokenizer, position)

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
        done = len(plain.prompt.encode())
        later = [span for span in self.asked.of(index) if span.start >= done]
        for start, stop in later[index % self.period :: self.period]:
            note = self.note.format(target=data[start:stop].decode())
            pieces += [data[done:start].decode(), note]
            done = start
        text = "".join(pieces) + data[done:].decode()
        return Example(plain.prompt, plain.answer, text, source=plain.source)

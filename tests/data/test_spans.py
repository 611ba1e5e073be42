"""A corpus seen as all of the spans that are asked for."""

import pytest

from components.position import EveryToken, PatternMatches
from components.task.masked_span import MaskedSpan, MaskProposal
from components.task.next_token import NextToken
from components.task.text import TextTask
from rlcomp.data.spans import CorpusSpans, Maskable, Span, Tokenised
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.tokenizer import byte_tokenizer

BYTES = byte_tokenizer()


def corpus(tmp_path, *texts):
    (tmp_path / "a.txt").write_text("|".join(texts))
    return TextTask(path=str(tmp_path / "a.txt"), separator="|", shortest=1)


def test_the_spans_of_a_corpus_are_numbered_through_its_documents(tmp_path):
    spans = CorpusSpans(corpus(tmp_path, "1a2", "b", "3"), BYTES, PatternMatches(pattern=r"(\d)"))

    found = [spans[index] for index in range(len(spans))]
    assert [(document.text, span.start) for document, span in found] == [
        ("1a2", 0),
        ("1a2", 2),
        ("3", 0),
    ]


def test_the_documents_of_a_corpus_carry_their_tokens(tmp_path):
    document, span = CorpusSpans(corpus(tmp_path, "né"), BYTES, EveryToken(min_context=1))[0]

    assert (list(document.ids), list(document.ends)) == (BYTES("né")["input_ids"], [1, 2, 3])
    assert span == Span(1, 3)


def test_a_corpus_without_a_span_is_refused(tmp_path):
    with pytest.raises(DataError, match="no span of the 2 documents of corpus"):
        CorpusSpans(corpus(tmp_path, "ab", "cd"), BYTES, EveryToken(min_context=2))


def test_white_space_and_whole_texts_cannot_be_masked():
    documents = [Tokenised(text, ids=[], ends=[]) for text in ("a  b", " a", "b b")]

    spans = Maskable(PatternMatches(pattern=r"(\s+|\S)")).spans(documents)

    assert spans == [[Span(0, 1), Span(3, 4)], [], []]


class Questions:
    """A corpus of answers that are held out by their prompts."""

    held_out = 0.5

    def __len__(self):
        return 40

    def example(self, index):
        return Example(f"question {index}", f"answer {index}", f"answer {index}")


@pytest.mark.parametrize("task", [NextToken, MaskedSpan, MaskProposal])
def test_what_is_held_out_of_the_corpus_is_held_out_of_a_task_on_it(task):
    corpus = Questions()
    asked = task(corpus=corpus, tokenizer=BYTES, position=PatternMatches(pattern="(.) "))

    found = [asked.example(index).is_held_out(0.5) for index in range(len(asked))]

    assert found == [corpus.example(index).is_held_out(0.5) for index in range(len(corpus))]
    assert {*found} == {True, False}

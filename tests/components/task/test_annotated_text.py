import pytest

from components.position import EveryToken
from components.task.next_token import AnnotatedText
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example
from rlcomp.text.tokenizer import byte_tokenizer


class Two:
    """Two documents; the second one is held out."""

    held_out = 0.5
    texts = ("abcdefgh", "né, né")

    def __len__(self):
        return 2

    def example(self, index):
        text = self.texts[index]
        return Example(text[:1], text, text[1:], source=text)


def annotated(**arguments):
    given = {"position": EveryToken(min_context=2), "note": "<{target}>", "period": 3}
    return AnnotatedText(corpus=Two(), tokenizer=byte_tokenizer(), **given | arguments)


def test_notes_predict_the_next_token_at_every_third_position():
    # Positions c to h; document 0 starts with the first of them, and takes every third: c and f.
    assert annotated().example(0).demonstration == "b<c>cde<f>fgh"


def test_documents_start_at_different_positions():
    # Bytes n C3 A9 , space n C3 A9; with two before it, whole characters start at "," " " "n" "é".
    # Document 1 skips the first position.
    assert annotated().example(1).demonstration == "é,< > né"
    assert annotated(period=2).example(1).demonstration == "é,< > n<é>é"


def test_without_notes_it_is_the_document():
    task = annotated(note="|")
    text = task.example(0).demonstration

    assert text == "b|cde|fgh"
    assert "a" + text.replace("|", "") == task.example(0).answer == task.example(0).source


def test_documents_are_held_out_as_in_their_corpus():
    task = annotated()

    for index in range(2):
        plain = Two().example(index)
        assert task.example(index).is_held_out(0.5) == plain.is_held_out(0.5)
    assert (len(task), task.held_out) == (2, 0.5)


def test_a_corpus_of_questions_is_refused():
    class Questions(Two):
        def example(self, index):
            return Example("1+1=", "2", "2")

    every = EveryToken(min_context=0)
    task = AnnotatedText(corpus=Questions(), tokenizer=byte_tokenizer(), position=every)

    with pytest.raises(DataError, match="document 0 of corpus does not begin with its prompt '1"):
        task.example(0)

"""Short answers and notes."""

import pytest

from components.reward.answer import ShortAnswer
from rlcomp.errors import DataError
from rlcomp.verify.short_answer import notes_hold, notes_of, short_answer


@pytest.mark.parametrize(
    ("metric", "given", "gold", "score"),
    [
        ("exact", "The Eiffel-Tower!", "eiffeltower", 1.0),
        ("exact", "tower", "towers", 0.0),
        ("exact", "42", "42.0", 0.0),
        ("exact", "-42", "42", 0.0),  # SQuAD takes the sign away
        ("exact", "4.2", "42", 0.0),  # and the point
        ("exact", "-.5", ".5", 0.0),
        ("exact", "-.5", "-.5!", 1.0),
        ("exact", "$1,000.", "1000", 1.0),
        ("exact", "2020-21", "202021", 1.0),
        ("exact", "v.2", "v2", 1.0),
        ("contains", "It is -42", "42", 0.0),
        ("exact", "the", "a", 0.0),
        ("exact", "the", "the", 1.0),
        ("f1", "the tower of Paris", "Eiffel tower", 0.4),  # 1 of 3, 1 of 2: 2 * 1 / 5
        ("f1", "no no no yes", "no no", 2 / 3),  # 2 of 4, 2 of 2: 2 * 2 / 6
        ("f1", "x", "y", 0.0),
        ("f1", "", "y", 0.0),
        ("f1", "the", "the", 1.0),
        ("contains", "It is fine ART, I say", "art", 1.0),
        ("contains", "start", "art", 0.0),
        ("contains", "art of fine", "fine art", 0.0),
        ("contains", "a fine, art", "fine art", 1.0),
        ("contains", "anything", "the", 0.0),
    ],
)
def test_two_texts(metric, given, gold, score):
    assert short_answer(given, [gold], metric=metric) == pytest.approx(score, abs=1e-12)


def test_the_best_of_several_gold_answers_counts():
    assert short_answer("b c", ["x", "b", "c d"], metric="f1") == pytest.approx(2 / 3)


def test_the_reward_reads_answer_and_answers():
    row = {"prompt": "", "response": "so <answer>B</answer>", "answer": "a x"}

    assert ShortAnswer().score_row(row) == 0.0
    assert ShortAnswer().score_row(row | {"answers": ["b"]}) == 1.0
    assert ShortAnswer().score_row(row | {"answer": "b"}) == 1.0
    assert ShortAnswer(metric="f1").score_row(row | {"answer": "b x"}) == pytest.approx(2 / 3)
    assert ShortAnswer().score_row(row | {"response": "B", "answer": "b"}) == 0.0
    assert ShortAnswer(where="whole").score_row(row | {"response": "B", "answer": "b"}) == 1.0
    assert ShortAnswer().score_row(row | {"answer": " ", "answers": []}) is None
    with pytest.raises(DataError, match="the column 'answers' is 'b': must be a list of texts"):
        ShortAnswer().score_row(row | {"answers": "b"})


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("<n>a</n>b<n>c d</n>", "a c d"),
        ("<n>a", ""),
        ("<n>a<n>b</n>", "b"),
        ("</n>a<n></n>", ""),
        ("<n>a\nb</n>", "a\nb"),
    ],
)
def test_notes_are_between_their_tags(text, notes):
    assert notes_of(text, "n") == notes


def test_a_tag_is_no_pattern():
    assert notes_of("<a>x</a><.>y</.>", ".") == "y"


def test_the_answer_is_held_as_whole_words():
    assert notes_hold("<n>He was born</n><n>in 2013.</n>", "n", ["born in"])
    assert not notes_hold("<n>known</n>", "n", ["no"])
    assert notes_hold("<n>known</n>", "n", ["no", "known"])
    assert not notes_hold("<n></n>", "n", ["", " "])

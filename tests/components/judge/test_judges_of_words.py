"""The judges that compare words: exact, word_prefix, overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.judge import ExactMatchJudge, WordOverlapJudge, WordPrefixJudge

TEXTS = st.lists(st.sampled_from("abc"), max_size=5).map(" ".join)
JUDGES = [ExactMatchJudge(), WordPrefixJudge(least=1), WordPrefixJudge(least=3), WordOverlapJudge()]


@pytest.mark.parametrize("judge", JUDGES)
@given(text=TEXTS.filter(bool))
def test_a_text_agrees_with_itself_whatever_the_white_space(judge, text):
    assert judge(text, text) == 1.0
    assert judge(f"\n {text.replace(' ', '  ')}\t", text) == 1.0


@pytest.mark.parametrize("judge", JUDGES)
@given(prediction=TEXTS)
def test_nothing_can_be_told_of_a_reference_without_words(judge, prediction):
    assert judge(prediction, " \n") is None


@pytest.mark.parametrize("judge", JUDGES)
@given(reference=TEXTS.filter(bool))
def test_a_prediction_without_words_is_worth_nothing(judge, reference):
    assert judge(" ", reference) == 0.0


@given(TEXTS, TEXTS.filter(bool))
def test_who_is_exactly_right_is_right_in_all_of_them(prediction, reference):
    exact, short, _, overlap = (judge(prediction, reference) for judge in JUDGES)

    assert exact <= short
    assert exact <= overlap <= 1.0


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ("the cat", 1.0),  # stops early
        ("the cat sat on the mat", 1.0),  # goes on
        ("the", 0.0),  # too little to tell
        ("the ca", 0.0),  # half a word
        ("cat sat", 0.0),  # not its beginning
        ("the dog sat", 0.0),
    ],
)
def test_a_prediction_of_enough_words_may_stop_early_or_go_on(prediction, expected):
    assert WordPrefixJudge(least=2)(prediction, "the cat sat") == expected


def test_a_reference_shorter_than_the_least_asks_for_all_of_it():
    judge = WordPrefixJudge(least=3)

    assert judge("so it", "so it") == 1.0
    assert judge("so it goes", "so it") == 1.0
    assert judge("so", "so it") == 0.0


@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_overlap_is_the_harmonic_mean_of_precision_and_recall(prediction, reference):
    left, shared = reference.split(), 0
    for word in prediction.split():  # each word of the reference is found once
        if word in left:
            left.remove(word)
            shared += 1
    precision, recall = shared / len(prediction.split()), shared / len(reference.split())
    expected = 2 * precision * recall / (precision + recall) if shared else 0.0

    assert WordOverlapJudge()(prediction, reference) == pytest.approx(expected)

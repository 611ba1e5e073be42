"""Lexicon sentiment. Its valences: good 1.9, kind 2.4, love 3.2, villain -2.6."""

import sys
import time
from math import sqrt

import pytest

from components.reward.reward_model import Sentiment
from rlcomp.batch import encode_texts
from rlcomp.errors import MissingExtra
from rlcomp.testing import check_component, example_batch


def compound(valence):
    return pytest.approx(valence / sqrt(valence**2 + 15), abs=5e-5)  # VADER rounds to 4 digits


def test_it_keeps_the_contract():
    check_component(Sentiment())


@pytest.mark.parametrize(
    ("response", "valence"),
    [
        ("", 0.0),
        ("zounds and 37", 0.0),
        ("good", 1.9),
        ("Thou art kind, my love", 2.4 + 3.2),
        ("villain", -2.6),
        # An exclamation mark is worth .292.
        ("villain!", -2.6 - 0.292),
        # A negation turns a word round, times .74.
        ("not good", -0.74 * 1.9),
    ],
)
def test_the_score_sums_the_valences_of_the_words(response, valence):
    assert Sentiment().score("a good prompt", response, "love") == compound(valence)


def test_the_first_thousand_words_of_a_text_count():
    assert Sentiment().score("", "stone " * 999 + "good villain", "") == compound(1.9)
    assert Sentiment().score("", "stone " * 998 + "good villain", "") == compound(1.9 - 2.6)

    start = time.thread_time()
    Sentiment().score("", "good but " * 20_000, "")
    assert time.thread_time() - start < 10


def test_positive_answers_count_as_correct():
    batch = example_batch(("prompt", "response", "answer"), rows=3)
    batch["response"] = encode_texts(["good", "villain", "so"])

    result = Sentiment()(batch)

    assert result["correct"].tolist() == [True, False, False]
    assert result["reward_valid"].all()
    assert result["rewards"]["sentiment"][1].item() == compound(-2.6)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "vaderSentiment.vaderSentiment", None)
    monkeypatch.setitem(sys.modules, "vaderSentiment", None)

    with pytest.raises(MissingExtra, match=r"pip install 'rlcomp\[sentiment\]'"):
        Sentiment()

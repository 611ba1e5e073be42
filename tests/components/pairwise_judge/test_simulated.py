"""Simulated judge: quality, noise and planted biases by hand."""

import math

import pytest

from components.pairwise_judge.bradley_terry import SimulatedJudge
from components.worlds.sorting.positional_accuracy import PositionalAccuracy
from rlcomp.interfaces.judge import AnswerPair


def judged(first, second, answer="1234", **settings):
    (found,) = SimulatedJudge(quality=PositionalAccuracy(), **settings)(
        [AnswerPair("", first, second, answer)]
    )
    return math.log(found / (1 - found))


def test_the_log_odds_are_the_difference_of_qualities_over_the_temperature():
    # 3/4 and 1/4 stand in place.
    assert judged("1239", "9299", temperature=0.25) == pytest.approx(2.0)
    assert judged("9299", "1239", temperature=0.25) == pytest.approx(-2.0)


def test_biases_are_added_to_the_log_odds():
    # Two characters more, of the same quality 0: their length decides, and the place.
    assert judged("99999", "999", length_bias=0.3) == pytest.approx(0.6)
    assert judged("999", "99999", length_bias=0.3) == pytest.approx(-0.6)
    assert judged("9", "8", position_bias=0.7) == pytest.approx(0.7)


def test_far_odds_stay_probabilities():
    judge = SimulatedJudge(quality=PositionalAccuracy(), temperature=1e-9)

    assert judge([AnswerPair("", "1", "2", "1"), AnswerPair("", "2", "1", "1")]) == [1.0, 0.0]


def test_what_has_no_quality_gets_no_verdict():
    class Silent(PositionalAccuracy):
        def score(self, prompt, response, answer):
            return None if response == "?" else 1.0

    judge = SimulatedJudge(quality=Silent())

    assert judge(
        [AnswerPair("", "?", "1"), AnswerPair("", "1", "?"), AnswerPair("", "1", "2")]
    ) == [
        None,
        None,
        0.5,
    ]

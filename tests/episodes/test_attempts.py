import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.episodes.attempts import Attempts
from rlcomp.interfaces.environment import Turn


def test_an_attempt_pays_what_the_best_score_rises_by():
    attempts = Attempts(5, "Again.")

    paid = [attempts.answer(score).reward for score in (0.25, 0.0, 0.75, 0.5)]
    assert paid == [0.25, 0.0, 0.5, 0.0]
    assert attempts.answer(1.0) == Turn(reward=0.25, done=True)
    assert attempts.facts() == {"attempts": 5.0, "solved": 1.0}


def test_a_right_answer_ends_it_before_the_last_attempt():
    attempts = Attempts(5, "Again.")

    assert attempts.answer(1.0) == Turn(reward=1.0, done=True)


def test_the_last_attempt_is_not_remarked_upon():
    attempts = Attempts(2, "Again.")

    assert attempts.answer(0.0) == Turn(closing="Again.")
    assert attempts.answer(0.0) == Turn(done=True)
    assert attempts.facts() == {"attempts": 2.0, "solved": 0.0}


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75]), min_size=1))
def test_an_episode_is_paid_its_best_score(scores):
    attempts = Attempts(len(scores), "Again.")

    turns = [attempts.answer(score) for score in scores]
    assert sum(turn.reward for turn in turns) == pytest.approx(max(scores))
    assert [turn.done for turn in turns] == [False] * (len(scores) - 1) + [True]


def test_a_score_that_is_no_number_is_not_taken_for_a_wrong_answer():
    attempts = Attempts(2, "Again.")

    with pytest.raises(ValueError, match="score is nan: must be a finite number"):
        attempts.answer(math.nan)

    assert attempts.facts() == {"attempts": 0.0, "solved": 0.0}

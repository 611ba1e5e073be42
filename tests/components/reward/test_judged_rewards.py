"""Rewards of a judge: of the reference answer, and of criteria with weights."""

import pytest

from components.reward.judge import JudgeScore, Rubric
from rlcomp.errors import ConfigError, DataError


def contains(response, criterion):
    return None if criterion == "?" else float(criterion in response)


def row(response, **columns):
    return {"prompt": "p", "response": response, "answer": "", **columns}


def test_the_judge_compares_response_and_answer():
    asked = []
    reward = JudgeScore(judge=lambda *texts: asked.append(texts) or 0.5)

    assert reward.score("p", "mine", "gold") == 0.5
    assert asked == [("mine", "gold")]
    assert JudgeScore(judge=contains).score("p", "x", "?") is None
    assert [reward.is_correct(score) for score in (0.49, 0.5)] == [False, True]


@pytest.mark.parametrize(
    ("response", "score"), [("a", 0.75), ("ab", 1.0), ("ab!", 0.5), ("!", 0.0), ("b", 0.25)]
)
def test_weights_add_up_and_what_is_forbidden_takes_away(response, score):
    reward = Rubric(judge=contains, criteria={"a": 3, "b": 1, "!": -2})

    assert reward.score_row(row(response)) == score


def test_the_criteria_of_an_example_go_first():
    reward = Rubric(judge=contains, criteria={"a": 1.0}, column="asked")

    own = [{"criterion": "x", "weight": 3}, "y"]
    assert reward.score_row(row("ax", asked=own)) == 0.75
    assert reward.score_row(row("ax")) == 1.0


def test_a_criterion_that_the_judge_cannot_tell_makes_the_row_invalid():
    assert Rubric(judge=contains, criteria={"a": 1.0, "?": 0.1}).score_row(row("a")) is None


@pytest.mark.parametrize(
    "given",
    [
        [],
        "a",
        [1],
        [{"weight": 1}],
        ["a", "a"],
        [{"criterion": "a", "weight": "1"}],
        [{"criterion": "a", "weight": -1}],
        [""],
        [{"criterion": "a", "weight": True}],
    ],
)
def test_a_column_that_is_no_rubric_is_refused(given):
    with pytest.raises(DataError, match="must be a list of different"):
        Rubric(judge=contains).score_row(row("a", rubric=given))


def test_no_criteria_at_all_and_none_to_earn_by_are_refused():
    with pytest.raises(DataError, match=r"no column 'rubric' and there are no criteria"):
        Rubric(judge=contains).score_row(row("a"))
    with pytest.raises(ConfigError, match="none has a weight above 0"):
        Rubric(judge=contains, criteria={"a": -1.0, "b": 0.0})


def test_all_of_it_is_right_unless_told():
    assert [Rubric(judge=contains).is_correct(score) for score in (0.99, 1.0)] == [False, True]
    assert Rubric(judge=contains, correct_from=0.5).is_correct(0.5)

import math

import pytest

from components.shaping.length_penalty import LengthPenalty
from rlcomp.testing import graded_answers


def test_the_right_answers_of_a_solved_group_pay_for_length():
    # Group 1, two of three right, 2 and 6 tokens: z = -1 and 1. Group 2, one of three right.
    given = graded_answers(
        [2, 6, 4, 2, 6, 4], [True, True, False, True, False, False], [1, 1, 1, 2, 2, 2]
    )

    result = LengthPenalty(weight=0.5, min_accuracy=0.5)(given)

    short, long = 1 - 0.5 / (1 + math.e), 1 - 0.5 / (1 + 1 / math.e)
    assert result["reward"].tolist() == pytest.approx([short, long, 0.0, 1.0, 0.0, 0.0])
    assert result["rewards", "length_penalty"][2:].tolist() == [0.0] * 4


def test_without_a_threshold_every_group_pays():
    given = graded_answers([2, 6, 4, 4], [True, True, False, False], [1, 1, 1, 1])

    result = LengthPenalty(weight=0.5, min_accuracy=0.0)(given)

    assert result["reward"][0] > result["reward"][1] > 0
    assert result["reward"][2:].tolist() == [0.0, 0.0]


def test_an_invalid_answer_is_no_right_one():
    # Valid: one of two right, z = 0 for the only right one: sigmoid 1/2.
    given = graded_answers([2, 90, 4], [True, True, False], [0, 0, 0], valid=[True, False, True])

    result = LengthPenalty(weight=0.5, min_accuracy=0.5)(given)

    assert result["reward"].tolist() == [0.75, 0.0, 0.0]

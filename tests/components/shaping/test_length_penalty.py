"""Length penalties on correct responses."""

import math

import pytest
import torch

from components.shaping.length_penalty import AdaptiveLengthPenalty, GRPOLead, LengthPenalty
from rlcomp.metrics import recording
from rlcomp.testing import graded_answers


def test_right_answers_of_a_solved_group_have_a_penalty():
    # Group 1, two of three right, 2 and 6 tokens: z = -1 and 1. Group 2, one of three right.
    given = graded_answers(
        [2, 6, 4, 2, 6, 4], [True, True, False, True, False, False], [1, 1, 1, 2, 2, 2]
    )

    result = LengthPenalty(weight=0.5, min_accuracy=0.5)(given)

    short, long = 1 - 0.5 / (1 + math.e), 1 - 0.5 / (1 + 1 / math.e)
    assert result["reward"].tolist() == pytest.approx([short, long, 0.0, 1.0, 0.0, 0.0])
    assert result["rewards", "length_penalty"][2:].tolist() == [0.0] * 4


def test_without_a_threshold_every_group_has_a_penalty():
    given = graded_answers([2, 6, 4, 4], [True, True, False, False], [1, 1, 1, 1])

    result = LengthPenalty(weight=0.5, min_accuracy=0.0)(given)

    assert result["reward"][0] > result["reward"][1] > 0
    assert result["reward"][2:].tolist() == [0.0, 0.0]


def test_an_invalid_answer_is_no_right_one():
    # Valid: one of two right, z = 0 for the only right one: sigmoid 1/2.
    given = graded_answers([2, 90, 4], [True, True, False], [0, 0, 0], valid=[True, False, True])

    result = LengthPenalty(weight=0.5, min_accuracy=0.5)(given)

    assert result["reward"].tolist() == [0.75, 0.0, 0.0]


def test_only_right_answers_have_a_length_penalty():
    part = AdaptiveLengthPenalty(max_length=10, weight=0.5, target=1.0)

    result = part(graded_answers([2, 5, 8], [True, True, False]))

    assert result["reward"].tolist() == pytest.approx([0.9, 0.75, 0.0])
    assert result["rewards", "length_penalty"].tolist() == pytest.approx([-0.1, -0.25, 0.0])


def test_weight_0_leaves_the_reward_bit_for_bit():
    given = graded_answers([2, 5, 8], [True, True, False])
    before = given["reward"].clone()

    assert torch.equal(AdaptiveLengthPenalty(max_length=10)(given)["reward"], before)


def test_the_weight_follows_the_moving_average_and_is_used_before_it_moves():
    part = AdaptiveLengthPenalty(max_length=10, target=0.6, step=0.1, decay=0.5)
    seen = []
    # Accuracies 2/3, 0, 1, 1; averages 2/3, 1/3, 2/3, 5/6.
    for right in ([1, 1, 0], [0, 0, 0], [1, 1, 1], [1, 1, 1]):
        with recording() as ledger:
            part(graded_answers([3, 3, 3], right))
        seen.append(
            {
                name.split("/")[1]: ledger.means()[name]
                for name in ledger.means()
                if name.startswith("length_penalty/")
            }
        )

    assert [each["weight"] for each in seen] == pytest.approx([0.0, 0.1, 0.0, 0.1])
    assert [each["accuracy"] for each in seen] == pytest.approx([2 / 3, 1 / 3, 2 / 3, 5 / 6])
    assert float(part.weight) == pytest.approx(0.2)


def test_the_target_itself_is_enough_to_raise_it():
    part = AdaptiveLengthPenalty(max_length=10, target=0.5)

    part(graded_answers([3, 3], [True, False]))

    assert float(part.weight) == pytest.approx(0.05)


def test_the_weight_stays_within_its_bounds():
    part = AdaptiveLengthPenalty(max_length=10, target=0.5, step=0.7, max_weight=0.8, decay=0.0)

    for right, weight in ((True, 0.7), (True, 0.8), (False, 0.1), (False, 0.0)):
        part(graded_answers([3], [right]))
        assert float(part.weight) == pytest.approx(weight)


def test_invalid_rows_have_no_penalty_and_do_not_count():
    part = AdaptiveLengthPenalty(max_length=10, weight=0.5, target=0.5)

    result = part(graded_answers([4, 4, 4], [True, True, False], valid=[True, False, False]))

    assert result["reward"].tolist() == pytest.approx([0.8, 0.0, 0.0])
    assert float(part.accuracy) == 1.0


def test_a_batch_without_a_valid_row_moves_nothing():
    part = AdaptiveLengthPenalty(max_length=10, weight=0.5)

    part(graded_answers([4], [True], valid=[False]))

    assert float(part.weight) == 0.5
    assert bool(part.accuracy.isnan())


def test_weight_and_average_are_state():
    part, other = (AdaptiveLengthPenalty(max_length=10, target=0.5) for _ in range(2))
    part(graded_answers([3, 3], [True, False]))

    other.load_state_dict(part.state_dict())

    assert (float(other.weight), float(other.accuracy)) == (float(part.weight), 0.5)


def test_right_answers_are_ranked_by_length():
    # Right ones 2 and 6: mean 4, std 2, z = -1 and 1. The long wrong one does not count.
    given = graded_answers([2, 6, 60], [True, True, False], [7, 7, 7])

    result = GRPOLead(alpha=0.1)(given)

    assert result["reward"].tolist() == pytest.approx([math.exp(0.1), math.exp(-0.1), -1.0])
    assert torch.equal(result["rewards", "grpo_lead"], result["reward"])


def test_the_only_right_answer_gets_1():
    assert GRPOLead()(graded_answers([9, 2], [True, False], [0, 0]))["reward"].tolist() == [
        1.0,
        -1.0,
    ]


def test_an_invalid_row_does_not_count():
    given = graded_answers([4, 4, 90], [True, True, True], [0, 0, 0], valid=[True, True, False])

    assert GRPOLead()(given)["reward"].tolist() == [1.0, 1.0, 0.0]

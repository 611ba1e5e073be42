import math

import pytest
import torch

from components.advantage.group import GroupMean
from components.advantage.reweighted import DifficultyWeightedAdvantage
from rlcomp.testing import make_batch


def batch(correct, group_id, valid=None):
    right = torch.tensor(correct, dtype=torch.bool)
    rows = len(correct)
    return make_batch(
        reward=right.double(),
        correct=right,
        reward_valid=[True] * rows if valid is None else valid,
        group_id=group_id,
        response_mask=[[False, True, True]] * rows,
    )


def weighted(given, **settings):
    return DifficultyWeightedAdvantage(advantage=GroupMean(), **settings)(given)["advantage"]


def test_a_rare_right_answer_weighs_more_than_a_common_one():
    # The paper's a = 0.4, b = 1.5, q0 = 0.75, k = 10.
    # One of four right: A = 3/4 and -1/4; w(1/4) = 0.4 + 1.1 / (1 + e^-5), w(3/4) = 0.95.
    advantage = weighted(batch([1, 0, 0, 0], [2, 2, 2, 2]))

    rare = 0.75 * (0.4 + 1.1 / (1 + math.exp(-5)))
    assert advantage[:, 1].tolist() == pytest.approx([rare] + [-0.25 * 0.95] * 3)
    assert advantage[:, 0].tolist() == [0.0] * 4


def test_the_weight_runs_between_the_bounds_that_are_set():
    given = batch([1, 0, 0, 0], [2, 2, 2, 2])

    advantage = weighted(given, low=0.5, high=2.0, midpoint=0.5, steepness=4.0)

    # w(1/4) = 0.5 + 1.5 / (1 + e^-1), w(3/4) = 0.5 + 1.5 / (1 + e).
    rare, common = (0.5 + 1.5 / (1 + math.exp(sign)) for sign in (-1, 1))
    assert advantage[:, 1].tolist() == pytest.approx([0.75 * rare] + [-0.25 * common] * 3)


def test_accuracy_is_taken_over_the_valid_answers_of_the_group():
    # Two valid answers, one right: A = +-1/2, w(1/2) = 0.4 + 1.1 / (1 + e^-2.5) for both.
    advantage = weighted(batch([1, 0, 1], [2, 2, 2], [True, True, False]))

    weight = 0.4 + 1.1 / (1 + math.exp(-2.5))
    assert advantage[:, 1].tolist() == pytest.approx([0.5 * weight, -0.5 * weight, 0.0])


def test_no_sign_changes_and_equal_rewards_stay_at_0():
    given = batch([1, 0, 1, 1, 1], [2, 2, 2, 5, 5])
    plain = GroupMean()(given.clone())["advantage"]

    advantage = weighted(given)

    assert torch.equal(advantage.sign(), plain.sign())
    assert advantage[3:].abs().sum().item() == 0.0

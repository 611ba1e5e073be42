import math

import pytest
import torch
from tensordict import TensorDict

from components.advantage.group import GroupMean
from components.advantage.reweighted import DistillationAdvantage
from rlcomp.metrics import recording
from rlcomp.testing import check_component

NAN = math.nan
# log pi_T - log pi = 1, -3, (outside), 2 and -1.
ROWS = {
    "response_mask": [[False, True, True, False, True], [False, True, False, False, False]],
    "rollout_log_probs": [[NAN, -2.0, -1.0, NAN, -3.0], [NAN, -1.0, NAN, NAN, NAN]],
    "ref_log_probs": [[NAN, -1.0, -4.0, NAN, -1.0], [NAN, -2.0, NAN, NAN, NAN]],
    "reward": [1.0, 0.0],
    "reward_valid": [True, True],
    "group_id": [0, 0],
}


def batch(**other):
    columns = {key: torch.tensor(value) for key, value in (ROWS | other).items()}
    return TensorDict(columns, batch_size=[2])


def made(**other):
    return DistillationAdvantage(**{"horizon": "token", "clip": None, "coef": 1.0} | other)


@pytest.mark.parametrize("horizon", ["token", "sequence"])
def test_it_keeps_the_contract(horizon):
    check_component(made(horizon=horizon, clip=10.0))


@pytest.mark.parametrize(
    ("settings", "first", "second"),
    [
        ({}, [0, 1, -3, 0, 2], -1),
        ({"horizon": "sequence"}, [0, 0, -1, 0, 2], -1),
        ({"clip": 1.5, "coef": 2.0}, [0, 2, -3, 0, 3], -2),
    ],
)
def test_two_responses_by_hand(settings, first, second):
    found = made(**settings)(batch())["advantage"]

    assert found.tolist() == [first, [0, second, 0, 0, 0]]


def test_it_is_added_to_the_advantage_of_the_reward():
    # Rewards 1 and 0 are half above and half below their mean.
    found = made(coef=0.5, advantage=GroupMean())(batch())["advantage"]

    assert found.tolist() == [[0, 1.0, -1.0, 0, 1.5], [0, -1.0, 0, 0, 0]]


def test_a_student_that_is_its_teacher_has_no_advantage():
    own = batch()["rollout_log_probs"]

    found = made(horizon="sequence")(batch().set("ref_log_probs", own))["advantage"]

    assert not found.any()


def test_a_response_without_a_valid_reward_teaches_nothing():
    found = made()(batch(reward_valid=[False, True]))["advantage"]

    assert found.tolist() == [[0] * 5, [0, -1, 0, 0, 0]]


def test_the_difference_and_the_share_that_is_cut_are_recorded():
    # 1 - 3 + 2 - 1 over four tokens; two of them are beyond 1.5.
    with recording() as ledger:
        made(clip=1.5, coef=2.0)(batch())

    assert ledger.means() == {
        "advantage/distilled": pytest.approx(-0.25),
        "advantage/distilled_clipped": pytest.approx(0.5),
    }

import torch

from components.filter import ZeroVarianceMask
from rlcomp.testing import make_batch


def batch(reward, valid=None):
    return make_batch(
        reward=reward,
        reward_valid=[True] * 4 if valid is None else valid,
        group_id=[8, 2, 8, 2],
        response_mask=[[False, True]] * 4,
    )


def left(result):
    return result["response_mask"].any(1).tolist()


def test_groups_of_equal_rewards_have_no_response_left():
    assert left(ZeroVarianceMask()(batch([1.0, 1.0, 0.0, 1.0]))) == [True, False, True, False]


def test_an_invalid_reward_makes_no_difference():
    given = batch([1.0, 1.0, 0.0, 0.0], valid=[True, True, False, True])

    assert left(ZeroVarianceMask()(given)) == [False, True, False, True]


def test_it_may_ask_for_right_and_wrong_instead():
    given = batch([0.5, 0.1, 0.7, 0.2]).set("correct", torch.tensor([True, True, True, False]))

    result = ZeroVarianceMask().set_keys(reward="correct")(given)

    assert left(result) == [False, True, False, True]

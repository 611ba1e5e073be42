import pytest
import torch

from components.reward_check import RewardCheck
from rlcomp.batch import encode_texts
from rlcomp.errors import DataError, NumericalError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch(valid, reward=None, group=None, **entries):
    rows = len(valid)
    return make_batch(
        reward=reward or [0.0] * rows,
        reward_valid=valid,
        group_id=group or [0] * rows,
        **entries,
    )


def test_groups_that_teach_nothing_are_counted():
    # Groups: 7 varies; 2 is equal where it is valid; 5 has one valid row; 9 has none.
    rows = batch(
        valid=[True, True, True, True, False, True, False, False],
        reward=[0.0, 3.0, 1.0, 3.0, 8.0, 1.0, 0.0, 0.0],
        group=[7, 2, 7, 2, 2, 5, 5, 9],
    )
    # All of 7 and of 9 hit the limit, of 2 and 5 some.
    rows["truncated"] = torch.tensor([True, True, True, False, True, False, True, True])

    with recording() as ledger:
        RewardCheck(max_invalid_fraction=0.375)(rows)

    assert ledger.means() == pytest.approx(
        {
            "groups/unjudged": 1 / 4,
            "groups/zero_variance": 1 / 2,  # of 7 and 2
            "groups/all_truncated": 2 / 4,
        }
    )


def test_a_share_at_the_limit_goes_on_and_above_it_stops_with_the_first_row():
    texts = {
        "prompt": encode_texts(["1+1=", "2+2=", "3+3=", "4+4=", "5+5="]),
        "response": encode_texts(["2", "4", "six", "\x1b[2J", "10"]),
    }
    one = batch([True, True, True, False, True], **texts)
    two = batch([True, True, False, False, True], **texts)

    RewardCheck(max_invalid_fraction=0.2)(one)
    with pytest.raises(
        DataError, match=r"2 of 5 rewards .* is 0\.2; .* row 2 \(prompt '3\+3=', response 'six'\)"
    ):
        RewardCheck(max_invalid_fraction=0.2)(two)


def test_without_a_limit_a_batch_of_invalid_rewards_goes_on():
    with recording() as ledger:
        RewardCheck(max_invalid_fraction=1.0)(batch([False] * 3, group=[4, 4, 6]))

    # Neither group has a valid row, and so none of two, whose rewards could be equal.
    assert ledger.means() == {"groups/unjudged": 1.0}


def test_the_default_limit_is_a_fifth():
    with pytest.raises(DataError, match="1 of 4 rewards are invalid"):
        RewardCheck()(batch([True, True, False, True]))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_valid_reward_that_is_not_finite_is_told_by_its_row(value):
    with pytest.raises(NumericalError, match=rf"reward of row 1 is {value}"):
        RewardCheck()(batch([True, True], reward=[0.0, value]))


def test_no_rows_are_no_groups():
    empty = batch([True])[:0]

    with recording() as ledger:
        RewardCheck()(empty)

    assert ledger.means() == {}


def test_the_first_cause_is_told_where_the_reward_says_it():
    rows = batch([True, False, False], invalid_reason=encode_texts(["", "it hung", "it died"]))

    with pytest.raises(DataError, match=r"the first is row 1 \(\): it hung; correct the cause"):
        RewardCheck(max_invalid_fraction=0.5)(rows)


def test_a_reward_without_a_cause_returned_none():
    rows = batch([False], invalid_reason=encode_texts([""]))

    with pytest.raises(
        DataError,
        match=r"returned None or NaN for it, .* 0.0 for a wrong answer\); correct",
    ):
        RewardCheck(max_invalid_fraction=0.5)(rows)


def test_an_episode_whose_environment_failed_is_invalid_and_says_why():
    rows = batch([True, True, False], reward=[1.0, 0.0, 0.0])
    rows["episode_error"] = encode_texts(["", "OSError: gone", ""])

    found = RewardCheck(max_invalid_fraction=1.0)(rows.copy())
    assert found["reward_valid"].tolist() == [True, False, False]

    with pytest.raises(DataError, match=r"2 of 3 rewards are invalid.*OSError: gone"):
        RewardCheck(max_invalid_fraction=0.5)(rows)

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError
from rlcomp.functional.group import group_standardised
from rlcomp.functional.group_statistics import (
    Groups,
    difficulty_weight,
    difficulty_weighted,
    equal_shares,
    group_accuracy,
    varying_groups,
)

# Group 7: 4, 0, 2 and an invalid row; group 2: two equal rewards; group 9: one row.
REWARD = torch.tensor([4.0, 5.0, 0.0, 5.0, 2.0, 1.0, float("nan")], dtype=torch.float64)
IDS = torch.tensor([7, 2, 7, 2, 7, 9, 7])
VALID = torch.tensor([True] * 6 + [False])


def test_group_statistics_are_of_valid_rows():
    groups = Groups(REWARD, IDS, VALID)

    assert groups.count.tolist() == [3, 2, 3, 2, 3, 1, 3]
    assert groups.total(groups.reward).tolist() == [6, 10, 6, 10, 6, 1, 6]
    assert groups.comparable.tolist() == [True, False, True, False, True, False, False]


def test_centred_is_0_where_rewards_are_equal():
    # 4 0 2 - 6 / 3; everywhere else exactly 0.
    assert Groups(REWARD, IDS, VALID).centred().tolist() == [2, 0, -2, 0, 0, 0, 0]


def test_std_is_unbiased_and_covers_invalid_rows():
    # Of 4 0 2: (4 + 4 + 0) / (3 - 1) = 4.
    assert Groups(REWARD, IDS, VALID).std().tolist() == [2, 0, 2, 0, 2, 0, 2]


def test_where_comparable_is_0_elsewhere():
    kept = Groups(REWARD, IDS, VALID).where_comparable(torch.arange(1.0, 8.0))

    assert kept.tolist() == [1, 0, 3, 0, 5, 0, 0]


def test_highest_is_among_the_marked_rows():
    reward = torch.tensor([-3.0, -1.0, -2.0, 4.0, 5.0])
    groups = Groups(reward, torch.tensor([7, 7, 7, 2, 2]), torch.ones(5).bool())

    highest = groups.highest(torch.tensor([True, False, True, False, False]))

    assert highest.tolist() == [-2, -2, -2, -float("inf"), -float("inf")]


def test_members_are_the_marked_rows_by_group():
    among = torch.tensor([True, False, True, False, False, True, True])

    members = Groups(REWARD, IDS, VALID).members(among)  # none of group 2 is marked

    assert [part.tolist() for part in members] == [[0, 2, 6], [5]]


def test_integer_rewards_become_float32():
    groups = Groups(torch.tensor([2, 1]), torch.tensor([0, 0]), torch.tensor([1, 1]))

    assert groups.reward.dtype == torch.float32
    assert groups.centred().tolist() == [0.5, -0.5]


@pytest.mark.parametrize(
    ("reward", "equal"),
    [
        ([1 + 1e-9, 1.0], True),
        ([1 + 1e-7, 1.0], False),
        ([-1.0, 1.0], False),
        ([1e6 + 1e-3, 1e6], True),  # of large rewards the share counts, 1e-9
        ([2e-8, 0.0], False),
        ([1 + 2**-21, 1.0], True),  # float32 holds both: four of its steps
        ([1 + 5 * 2**-23, 1.0], False),
        ([120 + 2**-17, 120.0], True),
        ([2**-20, 0.0], False),  # the share counts, not 1e-6
    ],
)
def test_rewards_closer_than_rounding_are_equal(reward, equal):
    groups = Groups(
        torch.tensor(reward, dtype=torch.float64), torch.tensor([0, 0]), torch.tensor([True, True])
    )

    assert groups.comparable.tolist() == [not equal] * 2


def varying(values, ids, valid=None, dtype=torch.float64):
    valid = [True] * len(values) if valid is None else valid
    return varying_groups(
        torch.tensor(values, dtype=dtype), torch.tensor(ids), torch.tensor(valid).bool()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("value", "answers"), [(0.1, 3), (0.7, 6), (0.35, 7), (0.9, 10)])
def test_equal_rewards_do_not_vary_although_their_std_is_above_0(value, answers, dtype):
    # verl asks for np.std(values) > 0, which keeps such groups.
    assert np.std([0.1] * 3) > 0

    assert varying([value] * answers, [4] * answers, dtype=dtype).tolist() == [False] * answers


def test_variation_is_of_the_valid_rows_of_a_whole_group():
    # Group 1: its valid rewards are 1 and 1. Group 2: 1 and 0.
    kept = varying(
        [1.0, float("nan"), 1.0, 1.0, float("nan"), 0.0],
        [1, 1, 1, 2, 2, 2],
        [True, False, True, True, False, True],
    )

    assert kept.tolist() == [False, False, False, True, True, True]


def test_groups_of_one_do_not_vary():
    assert varying([1.0, 0.0, 1.0], [1, 2, 2]).tolist() == [False, True, True]


def test_varying_groups_of_no_rows_is_empty():
    none = torch.zeros(0)

    assert varying_groups(none, none.long(), none.bool()).shape == (0,)


def test_variation_of_an_infinite_reward_raises():
    with pytest.raises(NumericalError, match="row 1"):
        varying([0.0, float("inf")], [0, 0])


def test_group_accuracy_is_the_share_of_right_valid_answers():
    correct = torch.tensor([True, False, True, False, True])
    valid = torch.tensor([True, True, True, False, False])

    accuracy = group_accuracy(correct, torch.tensor([3, 3, 8, 8, 5]), valid)

    assert accuracy.tolist() == [0.5, 0.5, 1.0, 1.0, 0.0]


REWARD_ROWS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=1, max_size=12)


@given(REWARD_ROWS)
def test_a_group_varies_if_and_only_if_it_has_an_advantage(rows):
    values, ids = zip(*rows, strict=True)
    reward, group = torch.tensor(values) / 4, torch.tensor(ids)
    valid = torch.ones_like(group, dtype=torch.bool)

    kept = varying_groups(reward, group, valid)

    advantage = group_standardised(reward, group, valid, 1e-6)
    for label in group.unique():
        mine = group == label
        assert kept[mine].unique().numel() == 1
        assert bool(kept[mine][0]) == bool((advantage[mine] != 0).any())


CURVE = (0.4, 1.5, 0.75, 10.0)


def test_difficulty_weight_by_hand():
    # 0.1 above: 0.4 + 1.1 / (1 + e).
    weight = difficulty_weight(torch.tensor([0.75, 0.85], dtype=torch.float64), *CURVE)

    assert weight.tolist() == pytest.approx([0.95, 0.4 + 1.1 / (1 + math.e)])


def test_difficulty_weighted_by_hand():
    # q = 0.25: w(0.25) = 0.4 + 1.1 / (1 + e^-5), w(0.75) = 0.95.
    advantage = torch.tensor([[1.0, -1.0, 0.0]], dtype=torch.float64)

    weighted = difficulty_weighted(advantage, torch.tensor([0.25]), *CURVE)

    assert weighted.tolist()[0] == pytest.approx([0.4 + 1.1 / (1 + math.exp(-5)), -0.95, 0.0])


@given(st.floats(0, 1), st.floats(0, 1))
def test_difficulty_weight_falls_with_accuracy_within_its_limits(one, other):
    hard, easy = sorted((one, other))

    weight = difficulty_weight(torch.tensor([hard, easy], dtype=torch.float64), *CURVE)

    assert 0.4 <= weight[1] <= weight[0] <= 1.5


roles = st.lists(st.tuples(st.floats(0.01, 1), st.booleans()), min_size=1, max_size=8)


def test_equal_shares_by_hand():
    # The first kind weighs 1 of 4 and is to weigh 2: twice; the other 3 and is to weigh 2: 2/3.
    factor = equal_shares(torch.tensor([1.0, 2.0, 1.0]), torch.tensor([True, False, False]))

    torch.testing.assert_close(factor, torch.tensor([2.0, 2 / 3, 2 / 3]))


def test_equal_shares_with_a_role_of_weight_0_are_1():
    factor = equal_shares(torch.tensor([0.0, 0.3, 0.1]), torch.tensor([True, False, False]))

    assert factor.tolist() == [1.0, 1.0, 1.0]


@given(roles)
def test_equal_shares_give_both_roles_half_of_the_total(rows):
    share, first = map(torch.tensor, zip(*rows, strict=True))

    weighed = share * equal_shares(share, first)

    torch.testing.assert_close(weighed.sum(), share.sum())
    if first.any() and not first.all():
        torch.testing.assert_close(weighed[first].sum(), weighed[~first].sum())

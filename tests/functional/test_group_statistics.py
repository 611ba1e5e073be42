import pytest
import torch

from rlcomp.functional.group_statistics import Groups

# Group 7: 4, 0, 2 and an invalid row; group 2: two equal rewards; group 9: one row.
REWARD = torch.tensor([4.0, 5.0, 0.0, 5.0, 2.0, 1.0, float("nan")], dtype=torch.float64)
IDS = torch.tensor([7, 2, 7, 2, 7, 9, 7])
VALID = torch.tensor([True] * 6 + [False])


def test_statistics_are_those_of_the_valid_rows_of_a_group_in_every_row():
    groups = Groups(REWARD, IDS, VALID)

    assert groups.count.tolist() == [3, 2, 3, 2, 3, 1, 3]
    assert groups.total(groups.reward).tolist() == [6, 10, 6, 10, 6, 1, 6]
    assert groups.comparable.tolist() == [True, False, True, False, True, False, False]


def test_the_mean_is_subtracted_where_rewards_differ():
    # 4 0 2 - 6 / 3; everywhere else exactly 0.
    assert Groups(REWARD, IDS, VALID).centred().tolist() == [2, 0, -2, 0, 0, 0, 0]


def test_the_std_is_unbiased_and_stands_in_invalid_rows_as_well():
    # Of 4 0 2: (4 + 4 + 0) / (3 - 1) = 4.
    assert Groups(REWARD, IDS, VALID).std().tolist() == [2, 0, 2, 0, 2, 0, 2]


def test_what_is_kept_is_0_where_nothing_counts():
    kept = Groups(REWARD, IDS, VALID).where_comparable(torch.arange(1.0, 8.0))

    assert kept.tolist() == [1, 0, 3, 0, 5, 0, 0]


def test_the_highest_is_that_of_the_marked_rows():
    reward = torch.tensor([-3.0, -1.0, -2.0, 4.0, 5.0])
    groups = Groups(reward, torch.tensor([7, 7, 7, 2, 2]), torch.ones(5).bool())

    highest = groups.highest(torch.tensor([True, False, True, False, False]))

    assert highest.tolist() == [-2, -2, -2, -float("inf"), -float("inf")]


def test_members_are_the_marked_rows_of_each_group_in_their_order():
    among = torch.tensor([True, False, True, False, False, True, True])

    members = Groups(REWARD, IDS, VALID).members(among)  # none of group 2 is marked

    assert [part.tolist() for part in members] == [[0, 2, 6], [5]]


def test_integers_count_in_float32_and_valid_may_be_0_and_1():
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

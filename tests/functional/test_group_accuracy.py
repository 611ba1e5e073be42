import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError
from rlcomp.functional.group import group_standardised
from rlcomp.functional.group_statistics import group_accuracy, varying_groups


def of(values, ids, valid=None, dtype=torch.float64):
    valid = [True] * len(values) if valid is None else valid
    return varying_groups(
        torch.tensor(values, dtype=dtype), torch.tensor(ids), torch.tensor(valid).bool()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("value", "answers"), [(0.1, 3), (0.7, 6), (0.35, 7), (0.9, 10)])
def test_a_constant_group_is_not_varied_although_its_std_may_be_above_0(value, answers, dtype):
    # verl asks for np.std(values) > 0, which keeps such groups.
    assert np.std([0.1] * 3) > 0

    assert of([value] * answers, [4] * answers, dtype=dtype).tolist() == [False] * answers


def test_a_group_is_judged_by_its_valid_rows_and_as_a_whole():
    # Group 1: its valid rewards are 1 and 1. Group 2: 1 and 0.
    kept = of(
        [1.0, float("nan"), 1.0, 1.0, float("nan"), 0.0],
        [1, 1, 1, 2, 2, 2],
        [True, False, True, True, False, True],
    )

    assert kept.tolist() == [False, False, False, True, True, True]


def test_groups_of_one_are_not_varied():
    assert of([1.0, 0.0, 1.0], [1, 2, 2]).tolist() == [False, True, True]


def test_no_rows_give_no_verdict():
    none = torch.zeros(0)

    assert varying_groups(none, none.long(), none.bool()).shape == (0,)


def test_a_reward_that_is_not_finite_is_not_taken_for_equal():
    with pytest.raises(NumericalError, match="row 1"):
        of([0.0, float("inf")], [0, 0])


def test_accuracy_is_the_share_of_right_among_valid_answers():
    correct = torch.tensor([True, False, True, False, True])
    valid = torch.tensor([True, True, True, False, False])

    accuracy = group_accuracy(correct, torch.tensor([3, 3, 8, 8, 5]), valid)

    assert accuracy.tolist() == [0.5, 0.5, 1.0, 1.0, 0.0]


ROWS = st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=1, max_size=12)


@given(ROWS)
def test_a_kept_group_has_an_advantage_and_a_dropped_one_has_none(rows):
    values, ids = zip(*rows, strict=True)
    reward, group = torch.tensor(values) / 4, torch.tensor(ids)
    valid = torch.ones_like(group, dtype=torch.bool)

    kept = varying_groups(reward, group, valid)

    advantage = group_standardised(reward, group, valid, 1e-6)
    for label in group.unique():
        mine = group == label
        assert kept[mine].unique().numel() == 1
        assert bool(kept[mine][0]) == bool((advantage[mine] != 0).any())

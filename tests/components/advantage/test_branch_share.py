"""Group advantage of trees: by hand, and GRPO's without branches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.advantage.group import GroupMeanStd, LeaveOneOut
from components.advantage.reweighted import BranchShareAdvantage
from rlcomp.testing import check_component, make_batch


def batch_of(reward, *, parent=None, share=None, group=None, valid=None):
    count = len(reward)
    return make_batch(
        response_mask=torch.ones(count, 1).bool(),
        reward=torch.tensor(reward, dtype=torch.float64),
        reward_valid=valid or [True] * count,
        group_id=group or [0] * count,
        trajectory_id=torch.arange(count),
        branch_parent=parent or [-1] * count,
        branch_share=share or [1.0] * count,
    )


def advantage(component, batch):
    return component(batch.copy())["advantage"][:, 0]


# Row 0 was branched into row 2, that one into row 3; row 1 stands alone.
TREE = {"parent": [-1, -1, 0, 2], "share": [0.5, 1.0, 0.25, 0.25]}


def test_a_tree_by_hand():
    batch = batch_of([1.0, 0.0, 0.0, 4.0], **TREE)

    # Mean (.5 + 0 + 0 + 1) / 2 = .75; squares .5 x .0625 + .5625 + .25 x .5625 + .25 x 10.5625
    # = 3.375, over S - 1 = 1.
    found = advantage(BranchShareAdvantage(norm="none"), batch)
    assert found.tolist() == [0.25, -0.75, -0.75, 3.25]
    scaled = advantage(BranchShareAdvantage(epsilon=1e-9), batch)
    torch.testing.assert_close(scaled, found / 3.375**0.5)


def test_the_mean_of_other_trees_leaves_the_own_one_out():
    batch = batch_of([1.0, 0.5, 0.0, 4.0], **TREE)

    # Rows of tree 0 are compared with row 1; row 1 with (.5 + 0 + 1) / 1.
    found = advantage(BranchShareAdvantage(baseline="others", norm="none"), batch)
    assert found.tolist() == [0.5, -1.0, -0.5, 3.5]


def test_a_tree_without_others_teaches_nothing_by_them():
    batch = batch_of([1.0, 0.0], parent=[-1, 0], share=[0.5, 0.5])

    assert advantage(BranchShareAdvantage(baseline="others", norm="none"), batch).tolist() == [
        0.0,
        0.0,
    ]
    # One tree has no standard deviation.
    assert advantage(BranchShareAdvantage(norm="none"), batch).tolist() == [0.5, -0.5]


def test_a_row_that_could_not_be_judged_has_no_share():
    batch = batch_of([1.0, 0.0, 9.0, 4.0], valid=[True, True, False, True], **TREE)

    # (.5 + 1) / 1.75.
    found = advantage(BranchShareAdvantage(norm="none"), batch)
    mean = 1.5 / 1.75
    assert found.tolist() == pytest.approx([1 - mean, -mean, 0.0, 4 - mean])


REWARDS = st.lists(st.integers(-4, 4), min_size=2, max_size=9)


@given(REWARDS)
@settings(max_examples=30, deadline=None)
def test_without_branches_it_is_grpo_and_leave_one_out(reward):
    batch = batch_of([float(each) for each in reward], group=[n % 2 for n in range(len(reward))])

    for ours, theirs in (
        (BranchShareAdvantage(), GroupMeanStd()),
        (BranchShareAdvantage(baseline="others", norm="none"), LeaveOneOut()),
    ):
        torch.testing.assert_close(advantage(ours, batch), advantage(theirs, batch))


def test_it_keeps_the_contract():
    check_component(BranchShareAdvantage())

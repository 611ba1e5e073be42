import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.group import GroupMeanStd
from components.filter import VariedGroupFilter
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch(reward, group_id, valid=None):
    rows = len(reward)
    return make_batch(
        reward=torch.tensor(reward, dtype=torch.float32),
        reward_valid=[True] * rows if valid is None else valid,
        group_id=group_id,
        response_mask=torch.ones(rows, 2, dtype=torch.bool),
    )


def test_groups_whose_rewards_differ_are_kept_whole():
    result = VariedGroupFilter()(
        batch([1, 1, 0, 0, 1, 0], [4, 9, 4, 9, 9, 7], [True, True, True, False, True, True])
    )

    # 9 has rewards 1 and 1 (and an invalid 0), 7 is alone.
    assert result["group_id"].tolist() == [4, 4]


def test_a_constant_group_is_dropped_although_its_standard_deviation_may_be_above_0():
    assert VariedGroupFilter()(batch([0.1] * 7, [0] * 7)).shape == (0,)


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12)


@given(ROWS)
def test_every_row_that_is_kept_has_a_peer_with_an_advantage(rows):
    reward, ids = zip(*rows, strict=True)

    kept = VariedGroupFilter()(batch(reward, ids))

    if kept.shape[0]:
        advantage = GroupMeanStd()(kept)["advantage"]
        for label in kept["group_id"].unique():
            assert bool((advantage[kept["group_id"] == label] != 0).any())


def test_the_shares_of_groups_all_right_and_all_wrong_are_recorded():
    rows = batch([1, 1, 0, 0, 1, 0, 0], [4, 4, 5, 5, 6, 6, 7])
    rows["reward_valid"] = torch.tensor([True] * 6 + [False])
    rows["correct"] = rows["reward"] == 1

    with recording() as ledger:
        VariedGroupFilter()(rows)

    # Of 7 rows those of groups 4, 5 and 7 are dropped; what could not be judged is neither.
    assert ledger.means() == pytest.approx(
        {
            "filter/zero_variance_fraction": 5 / 7,
            "filter/all_right": 2 / 7,
            "filter/all_wrong": 2 / 7,
        }
    )


def test_right_and_wrong_may_be_compared_and_counted_instead_of_rewards():
    rows = batch([0.1, 0.2, 0.0, 0.0], [4, 4, 5, 5])
    rows["correct"] = torch.tensor([True, True, True, False])

    with recording() as ledger:
        kept = VariedGroupFilter().set_keys(reward="correct")(rows)

    assert kept["group_id"].tolist() == [5, 5]
    assert kept["correct"].tolist() == [True, False]
    assert ledger.means()["filter/all_right"] == 0.5

"""The leave-one-out advantage."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.group import LeaveOneOut
from rlcomp.functional.group import leave_one_out
from rlcomp.testing import check_component


def slowly(reward, group_id, valid):
    """Row by row, from the words: the mean of the others."""
    rows = []
    for i in range(len(reward)):
        others = [
            reward[j]
            for j in range(len(reward))
            if j != i and group_id[j] == group_id[i] and valid[j]
        ]
        rows.append(reward[i] - sum(others) / len(others) if others and valid[i] else 0.0)
    return torch.tensor(rows, dtype=torch.float64)


def test_the_worked_example():
    # R = 1 0 0 1 0: a right answer has one right one among four others, 1 - 1/4; a wrong one has
    # two, 0 - 2/4.
    reward = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0])

    result = leave_one_out(reward, torch.zeros(5, dtype=torch.int64), torch.ones(5).bool())

    assert result.tolist() == [0.75, -0.5, -0.5, 0.75, -0.5]


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=12
    )
)
def test_it_is_the_reward_minus_the_mean_of_the_others(rows):
    reward, group_id, valid = (torch.tensor(column) for column in zip(*rows, strict=True))

    result = leave_one_out(reward.double(), group_id, valid)

    assert torch.allclose(result, slowly(reward.double(), group_id, valid), atol=1e-12)


def test_it_keeps_the_contract():
    check_component(LeaveOneOut())

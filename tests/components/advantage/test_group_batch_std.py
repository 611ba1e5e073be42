import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.group import GroupBatchStd
from rlcomp.testing import check_component


def test_it_keeps_the_contract():
    check_component(GroupBatchStd())


def test_the_std_is_that_of_all_rewards(three_and_one, of_rows):
    # 3 0 0 9: mean 3, squares 0 + 9 + 9 + 36 = 54, unbiased std sqrt(18); group mean 1.
    advantage = of_rows(GroupBatchStd(epsilon=1e-12)(three_and_one(3.0, 0.0, 0.0)))

    assert advantage == pytest.approx([2 / 18**0.5, -1 / 18**0.5, -1 / 18**0.5, 0.0])


@given(seed=st.integers(0, 10000), shift=st.integers(-9, 9), scale=st.floats(0.5, 100))
def test_the_unit_and_the_origin_of_the_reward_change_nothing(drawn, seed, shift, scale):
    part, rows = GroupBatchStd(epsilon=1e-12), drawn(seed)

    moved = part(rows.copy().set("reward", scale * (rows["reward"] + shift)))["advantage"]

    torch.testing.assert_close(moved, part(rows)["advantage"], atol=1e-8, rtol=1e-8)

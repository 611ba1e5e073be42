import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.group import GPG
from rlcomp.testing import check_component


def test_it_keeps_the_contract():
    check_component(GPG())


def test_few_rewards_are_scaled_up(three_and_one, of_rows):
    # Two of four rewards are not 0: factor 2 on 2 -1 -1.
    assert of_rows(GPG()(three_and_one(3.0, 0.0, 0.0))) == [4.0, -2.0, -2.0, 0.0]


@given(seed=st.integers(0, 10000), scale=st.floats(0.5, 100))
def test_the_advantage_has_the_unit_of_the_reward(drawn, seed, scale):
    rows = drawn(seed)

    scaled = GPG()(rows.copy().set("reward", scale * rows["reward"]))["advantage"]

    torch.testing.assert_close(scaled, scale * GPG()(rows)["advantage"], atol=1e-9, rtol=1e-9)

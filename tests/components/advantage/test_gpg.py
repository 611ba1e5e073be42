import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.gpg import Gpg
from rlcomp.testing import check_component


def test_it_keeps_the_contract():
    check_component(Gpg())


def test_few_rewards_are_scaled_up(three_and_one, of_rows):
    # Two of four rewards are not 0: factor 2 on 2 -1 -1.
    assert of_rows(Gpg()(three_and_one(3.0, 0.0, 0.0))) == [4.0, -2.0, -2.0, 0.0]


def test_verl_s_gpg_is_reproduced(golden):
    for _, rows, want in golden("verl__adv_gpg"):
        mask = rows["response_mask"]

        got = Gpg()(rows)["advantage"]

        # verl computes group statistics in float32.
        torch.testing.assert_close(got[mask], want[mask], atol=1e-6, rtol=1e-6)


@given(seed=st.integers(0, 10000), scale=st.floats(0.5, 100))
def test_the_advantage_has_the_unit_of_the_reward(drawn, seed, scale):
    rows = drawn(seed)

    scaled = Gpg()(rows.copy().set("reward", scale * rows["reward"]))["advantage"]

    torch.testing.assert_close(scaled, scale * Gpg()(rows)["advantage"], atol=1e-9, rtol=1e-9)

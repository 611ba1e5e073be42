"""Running normalisation of rewards, by hand, and that splits do not matter."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.shaping.transform import RunningNormalisation
from rlcomp.functional.moments import merged_moments
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch

VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=8)


def rows(*reward, valid=None):
    reward = torch.tensor(reward)
    return make_batch(
        reward=reward,
        rewards={"learned": reward},
        reward_valid=torch.ones(len(reward)).bool() if valid is None else torch.tensor(valid),
    )


def test_all_rewards_so_far_are_counted():
    stage = RunningNormalisation()

    first = stage(rows(1.0, 3.0))["reward"]
    with recording() as ledger:
        second = stage(rows(5.0, 7.0, 99.0, valid=[True, True, False]))

    assert first.tolist() == [-1, 1]
    # 1, 3, 5, 7: mean 4, variance 5.
    expected = torch.tensor([1 / math.sqrt(5), 3 / math.sqrt(5), 0])
    torch.testing.assert_close(second["reward"], expected)
    torch.testing.assert_close(second["rewards", "normalised"][0], expected[0] - 5)
    assert ledger.means()["reward/running_mean"] == 4
    assert ledger.means()["reward/running_std"] == pytest.approx(math.sqrt(5))


def test_it_is_cut_off():
    assert RunningNormalisation(clip=0.5)(rows(1.0, 3.0))["reward"].tolist() == [-0.5, 0.5]


def test_equal_rewards_become_0():
    assert RunningNormalisation()(rows(7.0, 7.0))["reward"].tolist() == [0, 0]


@given(VALUES, VALUES)
def test_one_batch_or_two_give_the_same_moments(first, second):
    zero = torch.zeros((), dtype=torch.float64)
    one, other = (torch.tensor(x, dtype=torch.float64) for x in (first, second))

    apart = merged_moments(*merged_moments(zero, zero, zero, one), other)

    both = torch.cat([one, other])
    whole = (torch.tensor(float(len(both))), both.mean(), both.var(correction=0) * len(both))
    for got, want in zip(apart, whole, strict=True):
        torch.testing.assert_close(got, want.double(), rtol=1e-9, atol=1e-7)


def test_it_keeps_the_contract():
    check_component(RunningNormalisation())


def test_a_spread_that_is_rounding_is_not_blown_up():
    # Mean and standard deviation 1e-7, which is taken for 1e-6.
    found = RunningNormalisation()(rows(0.0, 2e-7))["reward"]

    assert found.tolist() == pytest.approx([-0.1, 0.1])

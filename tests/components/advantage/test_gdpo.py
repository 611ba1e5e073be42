import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict

from components.advantage.group import GDPO
from rlcomp.errors import ConfigError
from rlcomp.testing import check_component


def with_rewards(rows, **rewards):
    return rows.copy().set("rewards", TensorDict(rewards, batch_size=rows.batch_size))


def test_it_keeps_the_contract():
    check_component(GDPO(weights={"a": 1.0, "b": -0.5}))


def test_a_weight_of_0_leaves_a_reward_out_and_a_negative_one_turns_it(three_and_one, of_rows):
    # Standardised 1 0 -1 over the batch's std of (1, 0, -1, 0) = sqrt(2/3).
    a, b = torch.tensor([2.0, 1.0, 0.0, 9.0]), torch.tensor([0.0, 5.0, 1.0, 9.0])
    rows = with_rewards(three_and_one(0.0, 0.0, 0.0), a=a, b=b)

    advantage = of_rows(GDPO(weights={"a": -1.0, "b": 0.0}, epsilon=1e-9)(rows))

    assert advantage == pytest.approx([-(1.5**0.5), 0.0, 1.5**0.5, 0.0])


@given(seed=st.integers(0, 10000), scale=st.floats(0.5, 100))
def test_the_unit_of_one_reward_changes_nothing(drawn, seed, scale):
    rows, other = drawn(seed), drawn(seed + 1)["reward"]
    part = GDPO(weights={"a": 1.0, "b": 0.5}, epsilon=1e-12)

    plain = part(with_rewards(rows, a=rows["reward"], b=other))["advantage"]
    scaled = part(with_rewards(rows, a=scale * rows["reward"], b=other))["advantage"]

    torch.testing.assert_close(scaled, plain, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"a": 1.0}, "'b' has no weight"), ({"a": 1.0, "b": 1.0, "bb": 1.0}, "names 'bb'")],
)
def test_weights_must_name_the_rewards(weights, message, three_and_one):
    rows = with_rewards(three_and_one(0.0, 0.0, 0.0), a=torch.zeros(4), b=torch.zeros(4))

    with pytest.raises(ConfigError, match=message):
        GDPO(weights=weights)(rows)


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}])
def test_no_weights_are_refused(weights):
    with pytest.raises(ConfigError, match="weights is"):
        GDPO(weights=weights)


def test_a_row_without_one_of_the_rewards_counts_as_little_as_one_that_is_not_there(
    three_and_one, of_rows
):
    # Without the second, a is (1, -1) in its group: +-1/sqrt(2).
    nan = float("nan")
    a, b = torch.tensor([1.0, nan, -1.0, 9.0]), torch.tensor([0.0, 0.0, 0.0, 0.0])
    valid = with_rewards(three_and_one(0.0, 0.0, 0.0), a=a, b=b)
    part = GDPO(weights={"a": 1.0, "b": 1.0}, epsilon=1e-9)

    advantage = of_rows(part(valid))

    # (., -., 0) of the rows that count: std sqrt((1/2 + 1/2) / 2).
    assert advantage == pytest.approx([1.0, 0.0, -1.0, 0.0])


def test_a_reward_of_weight_0_may_be_missing(three_and_one, of_rows):
    a, b = torch.tensor([2.0, 1.0, 0.0, 9.0]), torch.full((4,), float("nan"))
    rows = with_rewards(three_and_one(0.0, 0.0, 0.0), a=a, b=b)

    advantage = of_rows(GDPO(weights={"a": 1.0, "b": 0.0}, epsilon=1e-9)(rows))

    assert advantage == pytest.approx([1.5**0.5, 0.0, -(1.5**0.5), 0.0])

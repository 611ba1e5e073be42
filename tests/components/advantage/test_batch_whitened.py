import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.whitened import BatchWhitening
from rlcomp.testing import example_batch, make_batch


def batch(reward, mask, **more):
    rows = len(reward)
    valid = torch.ones(rows, dtype=torch.bool)
    return make_batch(reward=reward, reward_valid=valid, response_mask=mask, **more)


def test_every_token_counts_in_the_mean():
    # Returns 1, 1, 1, -1: mean 0.5, variance (3 x 0.25 + 2.25) / 3 = 1.
    mask = torch.tensor([[True, True, True], [True, False, False]])

    advantage = BatchWhitening()(batch(torch.tensor([1.0, -1.0]), mask))["advantage"]

    torch.testing.assert_close(advantage, torch.tensor([[0.5, 0.5, 0.5], [-1.5, 0, 0]]))


def test_the_turns_before_a_tool_call_are_credited_like_those_after_it():
    mask = torch.tensor([[True, True, False, True, True], [True, True, True, False, False]])

    advantage = BatchWhitening()(batch(torch.tensor([1.0, 0.0]), mask))["advantage"]

    assert advantage[0, 0] > 0
    assert (advantage[0][mask[0]] == advantage[0, 0]).all()


def test_the_price_of_a_token_counts_up_to_it():
    # Returns to go: 1 - 2 = -1, then 1; mean 0, variance 2.
    dense = torch.tensor([[-2.0, 0.0]])
    made = batch(torch.tensor([1.0]), torch.ones(1, 2).bool(), token_reward=dense)

    advantage = BatchWhitening()(made)["advantage"]

    torch.testing.assert_close(advantage, torch.tensor([[-(0.5**0.5), 0.5**0.5]]))


@pytest.mark.parametrize("value", [0.35, 0.7, 0.1])
def test_equal_rewards_give_exactly_0(value):
    mask = torch.rand(7, 5, generator=torch.Generator().manual_seed(0)) < 0.6

    advantage = BatchWhitening()(batch(torch.full((7,), value), mask))["advantage"]

    assert not advantage.any()


@given(st.integers(0, 10_000))
def test_the_mean_over_tokens_is_0_and_the_variance_1(seed):
    made = example_batch(BatchWhitening.reads, seed=seed, dtype=torch.float64)

    advantage = BatchWhitening()(made)["advantage"]

    kept = advantage[made["response_mask"] & made["reward_valid"][:, None]]
    assert kept.mean().item() == pytest.approx(0, abs=1e-9)
    assert kept.var().item() == pytest.approx(1, abs=1e-4)

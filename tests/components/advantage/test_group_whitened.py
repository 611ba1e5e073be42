import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.advantage.whitened import GroupWhitening
from rlcomp.testing import example_batch, make_batch


def batch(reward, group_id, mask, **more):
    rows = len(reward)
    valid = torch.ones(rows, dtype=torch.bool)
    entries = {"reward": reward, "reward_valid": valid, "group_id": group_id, **more}
    return make_batch(response_mask=mask, **entries)


def test_every_token_counts_in_the_mean():
    # R - mean = 1 and -1; on three tokens and one: mean 0.5, variance 1.
    mask = torch.tensor([[True, True, True], [True, False, False]])

    made = batch(torch.tensor([2.0, 0.0]), torch.tensor([7, 7]), mask)
    advantage = GroupWhitening()(made)["advantage"]

    torch.testing.assert_close(advantage, torch.tensor([[0.5, 0.5, 0.5], [-1.5, 0, 0]]))


def test_a_group_of_equal_rewards_moves_with_the_mean_of_the_batch():
    # 1, 1, 1, -1 and 0, 0: mean 1/3, variance (3 x 4/9 + 16/9 + 2/9) / 5 = 2/3.
    mask = torch.tensor([[True, True, True], [True, False, False], [True, False, False]])
    mask = torch.cat([mask, mask[2:]])

    made = batch(torch.tensor([2.0, 0.0, 5.0, 5.0]), torch.tensor([7, 7, 3, 3]), mask)
    advantage = GroupWhitening()(made)["advantage"]

    assert advantage[2:, 0].tolist() == pytest.approx([-(1 / 3) / (2 / 3) ** 0.5] * 2)


def test_a_group_of_one_gets_0_and_changes_nothing():
    mask = torch.tensor([[True, True], [True, False], [True, True]])
    made = batch(torch.tensor([1.0, 0.0, 50.0]), torch.tensor([7, 7, 3]), mask)

    advantage = GroupWhitening()(made.copy())["advantage"]

    assert advantage[2].tolist() == [0, 0]
    assert torch.equal(advantage[:2], GroupWhitening()(made[:2])["advantage"])


def test_an_invalid_reward_leaves_its_only_peer_alone():
    mask = torch.ones(4, 2).bool()
    made = batch(torch.tensor([1.0, 0.0, 9.0, 4.0]), torch.tensor([7, 7, 3, 3]), mask)
    made["reward_valid"] = torch.tensor([True, True, True, False])

    advantage = GroupWhitening()(made)["advantage"]

    assert advantage[:2, 0].sum().item() == pytest.approx(0)
    assert not advantage[2:].any()


@given(st.integers(0, 10_000))
def test_the_mean_over_tokens_is_0_and_the_variance_1(seed):
    made = example_batch(GroupWhitening.reads, rows=9, seed=seed, dtype=torch.float64)

    advantage = GroupWhitening()(made)["advantage"]

    counted = made["response_mask"] & made["reward_valid"][:, None]
    kept = advantage[:-1][counted[:-1]]  # the last row is a group of one
    assert kept.mean().item() == pytest.approx(0, abs=1e-9)
    assert kept.var().item() == pytest.approx(1, abs=1e-4)


def test_over_responses_each_counts_once():
    # R - mean = 1 and -1, mean 0, variance 2, however many tokens they have.
    mask = torch.tensor([[True, True, True], [True, False, False]])
    made = batch(torch.tensor([2.0, 0.0]), torch.tensor([7, 7]), mask)

    advantage = GroupWhitening(over="responses")(made)["advantage"]

    expected = torch.tensor([[1.0, 1, 1], [-1, 0, 0]]) / 2**0.5
    torch.testing.assert_close(advantage, expected)


def test_over_responses_a_group_of_one_and_an_invalid_row_do_not_count():
    # 3, 0, 0 - 1 = 2, -1, -1: variance 3; the row alone in its group and the invalid one get 0.
    made = batch(torch.tensor([3.0, 0, 0, 9, 50]), torch.tensor([7, 7, 7, 3, 7]), torch.ones(5, 2))
    made["response_mask"] = made["response_mask"].bool()
    made["reward_valid"] = torch.tensor([True, True, True, True, False])

    advantage = GroupWhitening(over="responses")(made)["advantage"][:, 0]

    assert advantage.tolist() == pytest.approx([2 / 3**0.5, -1 / 3**0.5, -1 / 3**0.5, 0, 0])

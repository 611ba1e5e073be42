"""How one number per response, and dense rewards, become an advantage per token."""

import pytest
import torch
from tensordict import TensorDict

from components.advantage.difficulty_weighted import DifficultyWeighted
from components.advantage.group_mean import GroupMean
from rlcomp.metrics import recording


def batch(**more):
    rows = {
        "reward": torch.tensor([1.0, 0.0]),
        "reward_valid": torch.tensor([True, True]),
        "correct": torch.tensor([True, False]),
        "group_id": torch.tensor([0, 0]),
        "response_mask": torch.tensor([[True, False, True], [True, True, False]]),
    }
    return TensorDict({**rows, **more}, batch_size=[2])


def test_dense_rewards_are_credited_to_go_past_the_baseline():
    dense = torch.tensor([[-0.1, float("nan"), -0.2], [0.0, -0.3, float("nan")]])

    advantage = GroupMean()(batch(token_reward=dense))["advantage"]

    # 1 - 1/2 and 0 - 1/2, then the sums from each token on: -0.3, -0.2 and -0.3, -0.3.
    want = torch.tensor([[0.2, 0.0, 0.3], [-0.8, -0.8, 0.0]])
    torch.testing.assert_close(advantage, want)


def test_the_metrics_are_of_what_is_written():
    dense = torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    rows = batch(token_reward=dense, reward=torch.tensor([1.0, 1.0]))

    with recording() as ledger:
        GroupMean()(rows)

    # Equal rewards: 1 and 0.5 on the tokens of the first row, 0 on those of the second.
    assert ledger.means()["advantage/abs"] == pytest.approx(1.5 / 4)
    assert ledger.means()["advantage/zero_fraction"] == pytest.approx(0.5)


def test_a_difficulty_weight_leaves_the_price_of_kl_alone():
    weighted = DifficultyWeighted(advantage=GroupMean())
    dense = torch.tensor([[0.0, 0.0, -0.2], [0.0, -0.2, 0.0]])

    with_price = weighted(batch(token_reward=dense))["advantage"]
    without = weighted(batch())["advantage"]

    want = torch.tensor([[-0.2, 0.0, -0.2], [-0.2, -0.2, 0.0]])
    torch.testing.assert_close(with_price - without, want)

"""How one number per response, and dense rewards, become an advantage per token."""

import pytest
import torch
from tensordict import TensorDict

from components.advantage.group import GroupMean
from components.advantage.reweighted import DifficultyWeightedAdvantage
from rlcomp.interfaces.advantage import broadcast, write_advantage
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


def test_the_metrics_are_of_the_written_advantage():
    dense = torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    rows = batch(token_reward=dense, reward=torch.tensor([1.0, 1.0]))

    with recording() as ledger:
        GroupMean()(rows)

    # Equal rewards: 1 and 0.5 on the tokens of the first row, 0 on those of the second.
    assert ledger.means()["advantage/abs"] == pytest.approx(1.5 / 4)
    assert ledger.means()["advantage/zero_fraction"] == pytest.approx(0.5)


def test_a_difficulty_weight_leaves_the_price_of_kl_alone():
    weighted = DifficultyWeightedAdvantage(advantage=GroupMean())
    dense = torch.tensor([[0.0, 0.0, -0.2], [0.0, -0.2, 0.0]])

    with_price = weighted(batch(token_reward=dense))["advantage"]
    without = weighted(batch())["advantage"]

    want = torch.tensor([[-0.2, 0.0, -0.2], [-0.2, -0.2, 0.0]])
    torch.testing.assert_close(with_price - without, want)


@pytest.mark.parametrize(
    ("advantage", "error", "told"),
    [
        # [B, 1] would be broadcast to [B, B, T].
        (
            torch.zeros(2, 1),
            ValueError,
            r"has shape \[2, 1\]: must be \[B\], here \[2\], .*x\[:, 0\]",
        ),
        (torch.zeros(1), ValueError, r"has shape \[1\]"),
        ([0.5, -0.5], TypeError, r"advantage is a list: must be a tensor \[B\]"),
    ],
)
def test_an_advantage_of_another_shape_is_refused(advantage, error, told):
    with pytest.raises(error, match=told):
        broadcast(batch(), advantage)


def test_an_advantage_of_responses_is_none_of_tokens():
    with pytest.raises(ValueError, match=r"must be \[B, T\], here \[2, 3\], .*broadcast"):
        write_advantage(batch(), torch.zeros(2))


def test_a_batch_without_a_response_mask_is_refused_with_the_key():
    rows = batch().exclude("response_mask")

    with pytest.raises(KeyError, match=r"no 'response_mask'.*reward_valid.*name it in reads"):
        broadcast(rows, torch.zeros(2))

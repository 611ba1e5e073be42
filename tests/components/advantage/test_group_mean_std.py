import pytest
import torch
from tensordict import TensorDict

from components.advantage.group import GroupMeanStd
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch


def batch(rewards: list[float]) -> TensorDict:
    rows = len(rewards)
    return make_batch(
        reward=rewards,
        reward_valid=torch.ones(rows, dtype=torch.bool),
        group_id=torch.zeros(rows, dtype=torch.int64),
        response_mask=[[False, True]] * rows,
    )


def test_the_advantage_counts_standard_deviations():
    # mean 0.5, unbiased std sqrt(0.5): 0.5 / 0.70710678 = 0.70710678.
    advantage = GroupMeanStd(epsilon=1e-12)(batch([1.0, 0.0]))["advantage"]

    torch.testing.assert_close(advantage[:, 1], torch.tensor([0.70710678, -0.70710678]))
    assert advantage[:, 0].tolist() == [0.0, 0.0]


def test_epsilon_is_added_to_the_standard_deviation():
    # 0.5 / (0.70710678 + 0.29289322) = 0.5.
    advantage = GroupMeanStd(epsilon=0.29289322)(batch([1.0, 0.0]))["advantage"]

    torch.testing.assert_close(advantage[:, 1], torch.tensor([0.5, -0.5]))


def test_the_default_epsilon_is_a_millionth():
    # Mean 0.70710678e-6, unbiased std 1e-6: 0.70710678 / (1 + 1).
    advantage = GroupMeanStd()(batch([1.41421356e-6, 0.0]))["advantage"]

    torch.testing.assert_close(advantage[:, 1], torch.tensor([0.35355339, -0.35355339]))


def test_an_epsilon_of_0_is_refused():
    with pytest.raises(ConfigError, match="epsilon is 0: must be greater than 0"):
        GroupMeanStd(epsilon=0)

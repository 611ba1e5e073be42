import pytest
import torch

from components.shaping.length import StopProperly
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch


def batch():
    reward = torch.tensor([1.0, 1.0, -1.0, 1.0])
    return make_batch(
        reward=reward,
        rewards={"exact_match": reward.clone()},
        reward_valid=[True, True, True, False],
        truncated=[True, False, True, True],
    )


def test_a_truncated_answer_keeps_a_share_of_its_reward():
    result = StopProperly(coef=0.25)(batch())

    assert result["reward"].tolist() == [0.25, 1.0, -0.25, 0.0]
    assert result["rewards", "stop_properly"].tolist() == [-0.75, 0.0, 0.75, 0.0]


def test_below_0_the_coefficient_is_the_reward():
    assert StopProperly(coef=-0.5)(batch())["reward"].tolist() == [-0.5, 1.0, -0.5, 0.0]


def test_a_coefficient_above_1_is_refused():
    with pytest.raises(ConfigError, match=r"coef is 1.5: must be at most 1"):
        StopProperly(coef=1.5)

import pytest
import torch
from tensordict import TensorDict

from components.reward.surface import Gibberish


def test_the_mean_log_prob_of_the_response_decides():
    # Means over the response: -2, exactly the bound; (-1 - 4) / 2 = -2.5; none; -2 without the NaN.
    log_probs = [
        [-9.0, -2.0, -9.0],
        [-9.0, -1.0, -4.0],
        [-9.0, -9.0, -9.0],
        [0.0, float("nan"), -2],
    ]
    mask = [[False, True, False], [False, True, True], [False, False, False], [False, False, True]]
    entries = {"rollout_log_probs": torch.tensor(log_probs), "response_mask": torch.tensor(mask)}

    result = Gibberish(below=-2.0, penalty=0.5)(TensorDict(entries, batch_size=[4]))

    assert result["reward"].tolist() == [0.0, -0.5, 0.0, 0.0]
    assert result["rewards", "gibberish"].tolist() == [0.0, -0.5, 0.0, 0.0]
    assert result["correct"].tolist() == [True, False, False, True]
    assert result["reward_valid"].tolist() == [True, True, False, True]


def test_the_penalty_is_1_by_default():
    entries = {"rollout_log_probs": torch.tensor([[-5.0]]), "response_mask": torch.tensor([[True]])}

    result = Gibberish(below=-4.5)(TensorDict(entries, batch_size=[1]))

    assert result["reward"].item() == pytest.approx(-1.0)

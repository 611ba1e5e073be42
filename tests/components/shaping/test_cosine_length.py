import math

import pytest
import torch
from tensordict import TensorDict

from components.shaping.length import CosineLength
from rlcomp.testing import make_batch


def test_the_worked_example():
    # L_max 4. Right: from 2 to 1, wrong: from -10 to 0; cos(pi/4) at 1 token, cos(3 pi/4) at 3.
    lengths = [1, 3, 2, 4, 4, 2]
    right = torch.tensor([True, False, True, True, False, True])
    entries = {
        "reward": right.double(),
        "rewards": make_batch(exact_match=right.double()),
        "reward_valid": torch.tensor([True, True, True, True, True, False]),
        "correct": right,
        "response_mask": torch.arange(5) < torch.tensor(lengths)[:, None],
    }
    half = math.sqrt(0.5)

    result = CosineLength(max_length=4, exceeded=-3.0)(TensorDict(entries, batch_size=[6]))

    expected = [1 + (1 + half) / 2, -10 * (1 - half) / 2, 1.5, -3.0, -3.0, 0.0]
    assert result["reward"].tolist() == pytest.approx(expected)
    assert torch.equal(result["rewards", "cosine_length"], result["reward"])
    assert result["rewards", "exact_match"].tolist() == right.double().tolist()


def test_what_each_end_gets_is_an_argument():
    shaping = CosineLength(
        max_length=10**6, right_start=5.0, right_end=4.0, wrong_start=-1.0, wrong_end=-2.0
    )
    right = torch.tensor([True, False])
    entries = {
        "reward": right.float(),
        "rewards": make_batch(right=right.float()),
        "reward_valid": torch.ones(2, dtype=torch.bool),
        "correct": right,
        "response_mask": torch.ones(2, 1, dtype=torch.bool),
    }

    result = shaping(TensorDict(entries, batch_size=[2]))

    assert result["reward"].tolist() == pytest.approx([5.0, -1.0], abs=1e-5)

import pytest
import torch

from components.shaping.length import L1Exact
from rlcomp.testing import make_batch


def batch(lengths, correct, valid=None):
    """Reward 1 for right, 0 for wrong answers of the given lengths."""
    rows, right = len(lengths), torch.tensor(correct, dtype=torch.bool)
    return make_batch(
        reward=right.double(),
        rewards={"exact_match": right.double()},
        reward_valid=[True] * rows if valid is None else valid,
        correct=right,
        response_mask=torch.arange(max(lengths)) < torch.tensor(lengths)[:, None],
    )


def test_exact_takes_a_price_for_every_token_off_the_target():
    given = batch([3, 5, 9, 9], [True, True, True, False])

    result = L1Exact(target_length=5, alpha=0.1)(given)

    assert result["reward"].tolist() == pytest.approx([0.8, 1.0, 0.6, -0.4])
    assert torch.equal(result["rewards", "l1_exact"], result["reward"])


def test_an_invalid_row_stays_at_0():
    given = batch([5, 5], [True, True], valid=[True, False])

    assert L1Exact(target_length=5)(given)["reward"][1].item() == 0.0

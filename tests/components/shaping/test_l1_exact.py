import pytest
import torch

from components.shaping.length import L1Exact
from rlcomp.testing import graded_answers


def test_exact_takes_a_price_for_every_token_off_the_target():
    given = graded_answers([3, 5, 9, 9], [True, True, True, False])

    result = L1Exact(target_length=5, alpha=0.1)(given)

    assert result["reward"].tolist() == pytest.approx([0.8, 1.0, 0.6, -0.4])
    assert torch.equal(result["rewards", "l1_exact"], result["reward"])


def test_an_invalid_row_stays_at_0():
    given = graded_answers([5, 5], [True, True], valid=[True, False])

    assert L1Exact(target_length=5)(given)["reward"][1].item() == 0.0

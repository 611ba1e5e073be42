import pytest
import torch

from components.shaping.length import L1Max
from rlcomp.testing import graded_answers


def test_max_pays_right_answers_for_staying_below_the_target():
    # 0.1 a token below 5, 0.5 at it, clipped to [0, 1].
    given = graded_answers([1, 5, 8, 11, 1], [True, True, True, True, False])

    result = L1Max(target_length=5, alpha=0.1, delta=0.5)(given)

    assert result["reward"].tolist() == pytest.approx([0.9, 0.5, 0.2, 0.0, 0.0])
    assert torch.equal(result["rewards", "l1_max"], result["reward"])


def test_max_pays_a_half_at_the_target_and_3e_4_a_token_where_nothing_else_is_said():
    result = L1Max(target_length=5)(graded_answers([1, 5, 8], [True, True, True]))

    # 4 tokens saved, none, 3 too many.
    assert result["reward"].tolist() == pytest.approx([0.5012, 0.5, 0.4991])


def test_an_invalid_row_stays_at_0():
    given = graded_answers([5, 5], [True, True], valid=[True, False])

    assert L1Max(target_length=5)(given)["reward"][1].item() == 0.0

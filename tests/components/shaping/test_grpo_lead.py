import math

import pytest
import torch

from components.shaping.length_penalty import GRPOLead
from rlcomp.testing import graded_answers


def test_right_answers_go_by_their_length_among_the_right_ones():
    # Right ones 2 and 6: mean 4, std 2, z = -1 and 1. The long wrong one does not count.
    given = graded_answers([2, 6, 60], [True, True, False], [7, 7, 7])

    result = GRPOLead(alpha=0.1)(given)

    assert result["reward"].tolist() == pytest.approx([math.exp(0.1), math.exp(-0.1), -1.0])
    assert torch.equal(result["rewards", "grpo_lead"], result["reward"])


def test_the_only_right_answer_gets_1():
    assert GRPOLead()(graded_answers([9, 2], [True, False], [0, 0]))["reward"].tolist() == [
        1.0,
        -1.0,
    ]


def test_an_invalid_row_counts_for_nobody():
    given = graded_answers([4, 4, 90], [True, True, True], [0, 0, 0], valid=[True, True, False])

    assert GRPOLead()(given)["reward"].tolist() == [1.0, 1.0, 0.0]

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.group_statistics import difficulty_weight, difficulty_weighted

CURVE = (0.4, 1.5, 0.75, 10.0)


def test_the_weight_is_halfway_at_the_midpoint_and_logistic_beside_it():
    # 0.1 above: 0.4 + 1.1 / (1 + e).
    weight = difficulty_weight(torch.tensor([0.75, 0.85], dtype=torch.float64), *CURVE)

    assert weight.tolist() == pytest.approx([0.95, 0.4 + 1.1 / (1 + math.e)])


def test_a_right_answer_weighs_by_accuracy_and_a_wrong_one_by_failure():
    # q = 0.25: w(0.25) = 0.4 + 1.1 / (1 + e^-5), w(0.75) = 0.95.
    advantage = torch.tensor([[1.0, -1.0, 0.0]], dtype=torch.float64)

    weighted = difficulty_weighted(advantage, torch.tensor([0.25]), *CURVE)

    assert weighted.tolist()[0] == pytest.approx([0.4 + 1.1 / (1 + math.exp(-5)), -0.95, 0.0])


@given(st.floats(0, 1), st.floats(0, 1))
def test_harder_prompts_never_weigh_less_and_weights_stay_between_the_limits(one, other):
    hard, easy = sorted((one, other))

    weight = difficulty_weight(torch.tensor([hard, easy], dtype=torch.float64), *CURVE)

    assert 0.4 <= weight[1] <= weight[0] <= 1.5

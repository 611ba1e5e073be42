import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.value import (
    draw_by_probability,
    importance_weight,
    priority_probability,
)


def test_probabilities_by_hand():
    priority = torch.tensor([1.0, 4.0, 16.0])

    # Roots 1, 2, 4 of 7; alpha 0 is uniform.
    expected = torch.tensor([1 / 7, 2 / 7, 4 / 7], dtype=torch.float64)
    torch.testing.assert_close(priority_probability(priority, 0.5), expected)
    assert priority_probability(priority, 0.0).tolist() == pytest.approx([1 / 3] * 3)


def test_weights_by_hand():
    probability = torch.tensor([0.5, 0.25, 0.125])

    # (4 P)^-1 = .5, 1, 2, over the greatest; beta 0 weighs all the same.
    assert importance_weight(probability, 4, 1.0).tolist() == [0.25, 0.5, 1.0]
    assert importance_weight(probability, 4, 0.0).tolist() == [1.0, 1.0, 1.0]
    assert importance_weight(probability, 4, 0.5).tolist() == pytest.approx([0.5, 0.5**0.5, 1.0])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.floats(0, 1))
def test_with_full_weights_the_mean_is_that_of_uniform_draws(priority, alpha):
    probability = priority_probability(torch.tensor(priority), alpha)
    values = torch.arange(float(len(priority))).double()

    weight = importance_weight(probability, len(priority), 1.0).double()
    mean = (probability * weight * values).sum() / (probability * weight).sum()

    assert float(mean) == pytest.approx(float(values.mean()), rel=1e-5, abs=1e-5)


def test_each_row_is_drawn_as_often_as_its_probability():
    probability = torch.tensor([0.1, 0.0, 0.6, 0.3])

    drawn = draw_by_probability(probability, (torch.arange(1000) + 0.5) / 1000)

    assert torch.bincount(drawn, minlength=4).tolist() == [100, 0, 600, 300]


def test_the_largest_draw_is_a_row():
    largest = torch.tensor([1 - 2**-53], dtype=torch.float64)

    assert draw_by_probability(torch.tensor([0.3, 0.7, 0.0]), largest).tolist() == [1]
    assert draw_by_probability(torch.full((3,), 1 / 3), torch.tensor([1 - 2**-24])).tolist() == [2]

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.continuous_action import bin_index, bin_value

LOW, HIGH = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 1.0])


@given(st.integers(2, 300))
def test_bins_there_and_back_are_the_same(num_bins):
    number = torch.arange(num_bins)[:, None].expand(-1, 2)

    assert torch.equal(
        bin_index(bin_value(number, LOW, HIGH, num_bins), LOW, HIGH, num_bins), number
    )


@given(st.floats(-2, 2), st.integers(2, 300))
def test_a_value_is_at_most_half_a_bin_away_from_its_bin(value, num_bins):
    low, high = torch.tensor(-2.0).double(), torch.tensor(2.0).double()
    given_value = torch.tensor(value).double()

    back = bin_value(bin_index(given_value, low, high, num_bins), low, high, num_bins)

    assert abs(float(back) - value) <= 4 / (num_bins - 1) / 2 + 1e-12


def test_the_ends_are_bins_and_what_is_outside_goes_to_them():
    value = torch.tensor([[-5.0, -0.1], [2.0, 1.0], [9.0, 3.0], [0.0, 0.5]])

    assert bin_index(value, LOW, HIGH, 7).tolist() == [[0, 0], [6, 6], [6, 6], [3, 3]]


def test_seven_bins_by_hand():
    values = bin_value(torch.arange(7), torch.tensor(-1.0), torch.tensor(1.0), 7)

    assert values.tolist() == pytest.approx([-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1])

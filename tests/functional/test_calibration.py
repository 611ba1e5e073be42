import pytest
import torch

from rlcomp.functional.statistics import Bin, expected_calibration_error, reliability


def test_bins_hold_as_many_predictions_by_rising_probability():
    probability = torch.tensor([0.75, 0.25, 0.5, 0.125], dtype=torch.float64)
    happened = torch.tensor([True, False, False, True])

    assert reliability(probability, happened, 2) == [Bin(0.1875, 0.5, 2), Bin(0.625, 0.5, 2)]


def test_there_are_no_empty_bins():
    assert len(reliability(torch.tensor([0.5, 0.25]), torch.tensor([True, False]), 10)) == 2


def test_the_error_is_weighted_by_the_size_of_the_bins():
    assert expected_calibration_error([Bin(0.5, 1.0, 1), Bin(0.5, 0.5, 3)]) == 0.125


def test_what_comes_true_as_often_as_predicted_is_calibrated():
    draw = torch.Generator().manual_seed(0)
    probability = torch.rand(20_000, generator=draw)
    happened = torch.rand(20_000, generator=draw) < probability

    # Ten bins of 2,000: each share has a standard error of .011 at most.
    found = expected_calibration_error(reliability(probability, happened, 10))
    assert found < 0.02
    assert expected_calibration_error(reliability(probability**2, happened, 10)) == pytest.approx(
        1 / 6, abs=0.02
    )

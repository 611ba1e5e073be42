from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.report.runs import Run
from rlcomp.report.statistics import area, area_under, band, curve, estimate, final, paired

VALUES = st.lists(st.floats(-100, 100), min_size=2, max_size=6)


def run(*points, name="m"):
    rows = [{"total": step, name: value} for step, value in points]
    return Run(Path("x"), "finished", rows=rows)


def test_the_area_under_a_line_is_its_value_in_the_middle():
    # v(t) = 2 t from t = 1 to t = 5: the integral is 25 - 1 = 24, over a span of 4.
    steps = np.array([1.0, 2.0, 4.0, 5.0])

    assert area_under(steps, 2 * steps) == 6.0


def test_the_area_weighs_uneven_steps_by_their_length():
    # Trapezoids: 1 * (0 + 1) / 2 + 9 * (1 + 1) / 2 = 9.5, over 10.
    assert area(run((0, 0.0), (1, 1.0), (10, 1.0)), "m") == pytest.approx(0.95)


def test_the_area_under_a_single_point_is_its_value():
    assert area(run((7, 0.25)), "m") == 0.25


def test_an_unrecorded_metric_has_no_final_value_and_no_area():
    assert final(run((1, 0.5)), "other") is None
    assert area(run((1, 0.5)), "other") is None


@pytest.mark.parametrize("end", [None, float("nan"), float("inf")])
def test_a_run_that_ends_in_no_number_has_neither_end_nor_area(end):
    broken = run((1, 0.5), (2, end))

    assert final(broken, "m") is None
    assert area(broken, "m") is None
    assert [part.tolist() for part in curve(broken, "m")] == [[1.0], [0.5]]


def test_a_gap_in_a_curve_is_bridged():
    # A line from (1, 0) to (3, 1): 1/2 in the middle.
    assert area(run((1, 0.0), (2, None), (3, 1.0)), "m") == 0.5


def test_a_final_value_is_the_last_one_recorded_not_that_of_the_last_step():
    rows = [{"total": 1, "m": 0.25}, {"total": 2, "m": 0.5}, {"total": 3, "loss": 9.0}]

    assert final(Run(Path("x"), "finished", rows=rows), "m") == 0.5


def test_equal_values_have_an_interval_without_width():
    found = estimate([0.3, 0.3, 0.3])

    assert (found.low, found.high, found.n) == (0.3, 0.3, 3)


@pytest.mark.parametrize(
    ("values", "mean", "half"),
    [
        # t(1) = 12.7062, s = sqrt(.5): 12.7062 * .70711 / sqrt(2) = 6.3531.
        ([0.0, 1.0], 0.5, 6.3531),
        # t(2) = 4.30265, s^2 = (1 + 1 + 4) / 2 = 3: 4.30265 * 1.73205 / 1.73205.
        ([0.0, 0.0, 3.0], 1.0, 4.30265),
        # t(7) = 2.36462, s^2 = (4 * 1 + 4 * 9) / 7 with 8 values: 2.36462 * sqrt(40 / 7 / 8).
        ([1.0, 1.0, 3.0, 3.0, -1.0, -1.0, 5.0, 5.0], 2.0, 2.36462 * (40 / 56) ** 0.5),
    ],
)
def test_the_interval_is_students(values, mean, half):
    found = estimate(values)

    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - half, abs=1e-4)
    assert found.high == pytest.approx(mean + half, abs=1e-4)


def test_one_value_has_no_interval_and_none_no_estimate():
    one = estimate([0.5])

    assert (one.mean, one.low, one.high, one.n) == (0.5, None, None, 1)
    assert estimate([]) is None


@given(VALUES, st.floats(-10, 10), st.floats(0.1, 10))
def test_an_interval_moves_and_stretches_with_its_values(values, shift, scale):
    found, other = estimate(values), estimate([shift + scale * value for value in values])

    assert found.low <= found.mean <= found.high
    assert other.low == pytest.approx(shift + scale * found.low, abs=1e-6)
    assert other.high == pytest.approx(shift + scale * found.high, abs=1e-6)


def test_differences_are_taken_seed_by_seed():
    # Seeds 1 and 2 are shared: 0.5 - 0.25 and 1.0 - 0.75, both 0.25; seed 3 has no partner.
    found = paired({"1": 0.5, "2": 1.0, "3": 9.0}, {"2": 0.75, "1": 0.25})

    assert (found.mean, found.low, found.high, found.n) == (0.25, 0.25, 0.25, 2)


def test_without_shared_seeds_there_is_no_difference():
    assert paired({"1": 0.5}, {"2": 0.5}) is None


def test_a_band_stands_at_the_steps_all_runs_recorded():
    steps, mean, low, high = band([run((1, 0.0), (2, 1.0)), run((1, 1.0), (2, 1.0), (3, 5.0))], "m")

    assert steps.tolist() == [1.0, 2.0]
    assert mean.tolist() == [0.5, 1.0]
    assert (low.tolist(), high.tolist()) == ([0.0, 1.0], [1.0, 1.0])


def test_a_long_curve_is_drawn_as_means_over_pieces():
    # 800 points in 400 pieces: the first holds steps 0 and 1 with values 0 and 1.
    steps, mean, _, _ = band([run(*((step, float(step)) for step in range(800)))], "m")

    assert len(steps) == 400
    assert (steps[0], mean[0]) == (0.5, 0.5)


def test_runs_without_a_shared_step_have_no_band():
    assert band([run((1, 0.0)), run((2, 0.0))], "m") is None
    assert band([], "m") is None

"""Pareto fronts: worked numbers, other people's code, laws."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import load_file

from rlcomp.errors import MissingExtra, NumericalError, ShapeError
from rlcomp.functional.pareto_front import (
    additive_epsilon,
    extent,
    hypervolume,
    igd_plus,
    nondominated,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "preference"
CASES = [
    "moo_1x2_0",
    "moo_8x2_1",
    "moo_25x2_2",
    "moo_8x3_3",
    "moo_30x3_4",
    "moo_12x4_5",
    "moo_10x5_6",
]
KNEE = [[3.0, 1.0], [2.0, 2.0], [1.0, 3.0], [1.0, 1.0]]

# On a grid, so that equal coordinates and equal points are met often.
FRONTS = st.integers(1, 4).flatmap(
    lambda width: st.integers(1, 7).flatmap(
        lambda count: arrays(np.float64, (count, width), elements=st.integers(-3, 5).map(float))
    )
)


def above(points):
    """A reference point below some of the points and above others."""
    return np.zeros(points.shape[1])


def dominates(one, other):
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(
        a > b for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_moocore(case):
    kept = load_file(GOLDEN / f"{case}.safetensors")
    points, aim = kept["in.points"], kept["in.reference_set"]
    near = {"rtol": 1e-9, "atol": 1e-12}

    volume = hypervolume(points, kept["in.ref"])
    np.testing.assert_allclose(volume, kept["out.hypervolume"], **near)
    np.testing.assert_allclose(igd_plus(points, aim), kept["out.igd_plus"], **near)
    epsilon = additive_epsilon(points, aim)
    np.testing.assert_allclose(epsilon, kept["out.epsilon_additive"], **near)
    assert nondominated(points).tolist() == kept["out.nondominated"].astype(bool).tolist()


def test_the_hypervolume_of_a_staircase_is_the_sum_of_its_steps():
    # Columns of width 1 under the stairs: 3 + 2 + 1.
    assert hypervolume(KNEE, [0, 0]) == 6.0


def test_the_hypervolume_of_boxes_is_that_of_their_union():
    # Three arms of 3 and a cube of 8; an arm shares its first two cubes with the middle cube, all
    # share the unit cube: 8 + 3 * (3 - 2) = 11.
    assert hypervolume([[1, 1, 3], [1, 3, 1], [3, 1, 1], [2, 2, 2]], [0, 0, 0]) == 11.0


def test_a_point_not_above_the_reference_adds_nothing():
    assert hypervolume([[2, 2], [-1, 9], [0, 9]], [0, 0]) == 4.0
    assert hypervolume([[-1, 9]], [0, 0]) == 0.0


def test_epsilon_is_the_rise_that_covers_the_reference():
    assert additive_epsilon(KNEE, [[3, 3]]) == 1.0
    assert additive_epsilon([[4, 4]], [[3, 3]]) == -1.0


def test_igd_plus_counts_only_what_falls_short():
    # Short by (3, 4) of the first, by (0, 0) of the second: (5 + 0) / 2.
    assert igd_plus([[1, 2]], [[4, 6], [1, 0]]) == 2.5


def test_equal_points_do_not_dominate_each_other():
    assert nondominated([[1, 1], [1, 1], [0, 2], [0, 1]]).tolist() == [True, True, True, False]


def test_the_extent_is_that_of_the_front_alone():
    # (1, 4) and (4, 0) are 3 and 4 apart; (-9, -9) is dominated.
    assert extent([[4, 0], [1, 4], [-9, -9]]) == 5.0
    assert extent([[4, 0]]) == 0.0


def test_with_one_objective_the_best_counts():
    assert hypervolume([[2.0], [5.0]], [1.0]) == 4.0
    assert nondominated([[2.0], [5.0]]).tolist() == [False, True]


@given(points=FRONTS)
def test_the_front_is_what_no_point_dominates(points):
    result = nondominated(points)

    for index, point in enumerate(points):
        assert result[index] == (not any(dominates(other, point) for other in points))


@given(points=FRONTS, data=st.data())
def test_a_further_point_never_takes_hypervolume_away(points, data):
    further = data.draw(arrays(np.float64, points.shape[1], elements=st.floats(-3, 6)))

    more = hypervolume(np.vstack([points, further]), above(points))

    assert more >= hypervolume(points, above(points)) - 1e-9


@given(points=FRONTS, data=st.data())
def test_order_duplicates_and_dominated_points_change_nothing(points, data):
    order = data.draw(st.permutations(range(len(points))))
    padded = np.vstack([points[order], points[:1], points[:1] - 1])
    aim = points + data.draw(st.integers(-2, 2))

    for measure, other in ((hypervolume, above(points)), (igd_plus, aim), (additive_epsilon, aim)):
        assert measure(padded, other) == pytest.approx(measure(points, other), abs=1e-12)


@given(points=FRONTS, factor=st.sampled_from([0.25, 2.0, 100.0]), data=st.data())
def test_hypervolume_scales_with_each_objective(points, factor, data):
    axis = data.draw(st.integers(0, points.shape[1] - 1))
    reference = data.draw(arrays(np.float64, points.shape[1], elements=st.integers(-3, 2)))
    factors = np.ones(points.shape[1])
    factors[axis] = factor

    scaled = hypervolume(points * factors, reference * factors)

    assert scaled == pytest.approx(factor * hypervolume(points, reference))


@given(point=arrays(np.float64, st.integers(1, 5), elements=st.floats(-2, 3)))
def test_the_hypervolume_of_one_point_is_the_product_of_its_gains(point):
    reference = np.linspace(-1.0, 0.5, len(point))

    expected = np.prod(np.maximum(point - reference, 0))

    assert hypervolume(point[None], reference) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("width", [2, 3, 4])
def test_hypervolume_is_the_share_of_random_draws_below_the_front(width):
    draws = np.random.default_rng(0)
    points = draws.random((6, width))
    inside = (draws.random((40_000, 1, width)) <= points).all(2).any(1)

    # 4 standard errors of a share of 40,000 draws: at most 4 * 0.5 / 200 = 0.01.
    assert hypervolume(points, np.zeros(width)) == pytest.approx(inside.mean(), abs=0.01)


@given(points=FRONTS)
def test_a_front_reaches_itself(points):
    assert igd_plus(points, points) == 0.0
    assert additive_epsilon(points, points[nondominated(points)]) == 0.0


NO_POINTS = np.zeros((0, 2))


@pytest.mark.parametrize("points", [NO_POINTS, [1.0, 2.0], np.zeros((3, 0))])
@pytest.mark.parametrize("measure", [nondominated, extent])
def test_what_is_no_set_of_points_is_refused(measure, points):
    with pytest.raises(ShapeError, match="give at least one point"):
        measure(points)


@pytest.mark.parametrize("measure", [hypervolume, igd_plus, additive_epsilon])
def test_wrong_widths_and_numbers_are_refused(measure):
    aim = [1.0, 1.0] if measure is hypervolume else [[1.0, 1.0]]

    with pytest.raises(ShapeError, match=r"the points have 3 objectives, the reference .* has 2"):
        measure([[1.0, 2.0, 3.0]], aim)
    with pytest.raises(ShapeError, match="at least one point"):
        measure(NO_POINTS, aim)
    with pytest.raises(NumericalError, match="points: a coordinate is not finite"):
        measure([[1.0, float("nan")]], aim)
    with pytest.raises(NumericalError, match="reference"):
        measure([[1.0, 2.0]], np.asarray(aim) * np.inf)


def test_without_moocore_the_front_is_found_and_its_volume_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "moocore", None)

    assert nondominated(KNEE).tolist() == [True, True, True, False]
    with pytest.raises(MissingExtra, match=r"pip install 'rlcomp\[pareto\]'"):
        hypervolume(KNEE, [0, 0])


def test_it_needs_no_torch():
    code = (
        "import sys, rlcomp.functional.pareto_front;"
        "assert not {'torch', 'moocore'} & set(sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr

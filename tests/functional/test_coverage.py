from itertools import product

import pytest
import torch

from rlcomp.functional.coverage import (
    CoveragePoint,
    Crossing,
    coverage_curve,
    coverage_difference,
    crossings,
)
from rlcomp.functional.pass_at_k import pass_at_k

SOLVED, OPEN = (0.1, 0.5), (-0.2, 0.4)


def counts(n, c):
    return torch.tensor(n), torch.tensor(c)


def test_coverage_difference_by_hand():
    # pass@1: 3/4 and 0 against 1/4 and 1/2. pass@2: 1 and 0 against 1 - C(3, 2) / C(4, 2) = 1/2
    # and 1. pass@3 of the first alone: 1 against 1 - C(3, 3) / C(4, 3).
    base, trained = counts([4, 2], [1, 1]), counts([4, 3], [3, 0])

    result = coverage_difference(base, trained, [1, 2, 3, 4], 0.95, seed=0)

    assert [(point.k, point.mean) for point in result] == [
        (1, pytest.approx(0.0)),
        (2, pytest.approx(1 / 2 - 3 / 4)),
        (3, pytest.approx(1 - 3 / 4)),  # the second problem has two answers in one of them
        (4, 0.0),
    ]


def test_coverage_has_no_point_beyond_the_number_of_answers():
    n, c = counts([2, 3], [1, 1])

    assert [point.k for point in coverage_curve(n, c, [1, 3, 4], 0.95, seed=0)] == [1, 3]
    assert [point.k for point in coverage_difference((n, c), (n, c), [3, 4], 0.95, seed=0)] == [3]


def test_coverage_interval_equals_all_draws_of_problems():
    # Three problems, differences 1, 0 and -1/2 at k = 1: of the 27 draws with replacement the means
    # lie between -1/2 (one draw, 3.7 %: above the tail of 2.5 %) and 1.
    n = torch.full((3,), 2)
    base, trained = (n, torch.tensor([0, 1, 1])), (n, torch.tensor([2, 1, 0]))
    means = sorted(sum(draw) / 3 for draw in product((1, 0, -1 / 2), repeat=3))
    assert (means[0], means[-1]) == (-1 / 2, 1)

    (point,) = coverage_difference(base, trained, [1], 0.95, seed=0)

    assert point == (1, pytest.approx(1 / 6), pytest.approx(-1 / 2), pytest.approx(1.0))


def test_pairing_removes_the_difficulty_of_problems():
    # Every problem but the last gains one of sixteen, that two: however the problems differ, the
    # mean of 15 draws lies between 1/16 (14/15 ** 15 = 36 % of the draws) and little more.
    c = torch.arange(15)
    n = torch.full((15,), 16)
    now = c + 1
    now[-1] += 1

    (point,) = coverage_difference((n, c), (n, now), [1], 0.95, seed=0)

    assert point.mean == pytest.approx(1 / 15)
    assert point.low == pytest.approx(1 / 16)
    assert point.high < 1.3 / 16


def test_two_problems_of_equal_gain_are_not_significant():
    # Both gain 1/4 at k = 1: a bootstrap has no width. Wilson's upper end of 0 in 2 is
    # z^2 / (2 + z^2) = 3.841459 / 5.841459 = 0.657620.
    n = torch.full((2,), 4)

    (point,) = coverage_difference(
        (n, torch.tensor([1, 2])), (n, torch.tensor([2, 3])), [1], 0.95, 0
    )

    assert point.mean == 0.25
    assert (point.low, point.high) == pytest.approx((0.25 - 0.657620, 0.25 + 0.657620), abs=1e-6)
    assert not point.significant


def test_coverage_curve_of_solved_problems_has_wilsons_interval():
    # 3 of 3: 3 / (3 + z^2) = 3 / 6.841459 = 0.438503.
    (point,) = coverage_curve(torch.full((3,), 4), torch.tensor([1, 2, 4]), [4], 0.95, seed=0)

    assert point == (4, 1.0, pytest.approx(0.438503, abs=1e-6), 1.0)


def test_coverage_curve_is_pass_at_k_with_its_interval():
    n, c = counts([4, 4, 4], [0, 2, 4])

    (one, four) = coverage_curve(n, c, [1, 4], 0.95, seed=0)

    assert (one.mean, four.mean) == (0.5, float(pass_at_k(n, c, 4).mean()))
    assert one.low < 0.5 < one.high


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], []),
        ([(1, 0.3, *SOLVED), (2, 0.1, *SOLVED)], []),
        ([(1, 0.3, *SOLVED), (4, -0.3, -0.5, -0.1)], [(1, 4, True)]),
        ([(1, 0.3, *SOLVED), (4, -0.3, *OPEN)], [(1, 4, False)]),
        ([(1, 0.3, *OPEN), (4, -0.3, -0.5, -0.1)], [(1, 4, False)]),
        # It is enough that some k of a side is sure; 0 belongs to neither.
        (
            [(1, 0.3, *SOLVED), (2, 0.1, *OPEN), (4, 0.0, *OPEN), (8, -0.1, -0.5, -0.1)],
            [(2, 8, True)],
        ),
        # Of several each has its own sides: the second one is not sure on its right.
        (
            [(1, 0.3, *SOLVED), (2, -0.3, -0.4, -0.2), (4, 0.1, *OPEN)],
            [(1, 2, True), (2, 4, False)],
        ),
        # The sure side lies beyond another crossing.
        (
            [(1, 0.3, *SOLVED), (2, -0.1, *OPEN), (4, 0.1, *OPEN), (8, -0.3, -0.4, -0.2)],
            [(1, 2, False), (2, 4, False), (4, 8, False)],
        ),
    ],
)
def test_a_crossing_is_significant_if_both_sides_are(points, expected):
    assert crossings([CoveragePoint(*point) for point in points]) == [
        Crossing(*one) for one in expected
    ]


@pytest.mark.parametrize(("low", "high", "significant"), [(0.0, 0.5, False), (-0.5, 0.0, False)])
def test_an_interval_that_ends_at_0_is_not_significant(low, high, significant):
    assert CoveragePoint(1, 0.2, low, high).significant is significant

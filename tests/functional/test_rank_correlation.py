import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.statistics import rank_correlation


def test_it_is_the_formula_of_the_rank_differences_where_no_two_are_equal():
    # Ranks 0 1 2 3 and 1 0 3 2: each differs by 1, so 1 - 6 * 4 / (4 * (16 - 1)) = 0.6.
    assert rank_correlation([1, 2, 3, 4], [20, 10, 90, 40]) == pytest.approx(0.6)


def test_equal_values_share_their_mean_rank():
    # Ranks 0.5 0.5 2 and 0 1 2, centred -.5 -.5 1 and -1 0 1: 1.5 / sqrt(1.5 * 2).
    assert rank_correlation([5, 5, 9], [1, 2, 3]) == pytest.approx(np.sqrt(0.75))


def test_a_constant_responds_to_nothing():
    assert rank_correlation([1, 2, 3], [0.1, 0.1, 0.1]) == 0.0


@given(values=st.lists(st.integers(-9, 9), min_size=2, max_size=8, unique=True))
def test_only_the_order_counts(values):
    numbers = np.asarray(values, dtype=np.float64)
    steps = np.arange(len(values), dtype=np.float64)

    assert rank_correlation(steps, np.exp(numbers)) == pytest.approx(
        rank_correlation(steps, numbers)
    )
    assert rank_correlation(steps, -numbers) == pytest.approx(-rank_correlation(steps, numbers))
    assert rank_correlation(numbers, numbers**3) == pytest.approx(1.0)


def test_two_lengths_are_refused():
    with pytest.raises(ShapeError, match=r"\[3\] and \[2\]"):
        rank_correlation([1, 2, 3], [1, 2])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_has_no_rank_is_refused(wrong):
    with pytest.raises(NumericalError, match="not finite: leave such pairs out"):
        rank_correlation([1, 2, 3], [1, wrong, 2])
    with pytest.raises(NumericalError, match="not finite"):
        rank_correlation([wrong, 2, 3], [1, 2, 3])

"""Logistic regression: by hand in saturated models, where odds are counted."""

import math

import pytest
import torch

from rlcomp.errors import DataError
from rlcomp.functional.statistics import logistic_regression


def fit(rows, outcome, cluster=None):
    cluster = torch.arange(len(rows)) if cluster is None else torch.tensor(cluster)
    return logistic_regression(torch.tensor(rows), torch.tensor(outcome), cluster)


def test_an_intercept_is_the_log_odds_and_its_error_that_of_a_share():
    found = fit([[1.0]] * 8, [1.0] * 6 + [0.0] * 2)

    assert found.coefficients.item() == pytest.approx(math.log(3))
    # 1 / sqrt(n p (1 - p)) with n = 8 and p = 3/4.
    assert found.errors.item() == pytest.approx(1 / math.sqrt(1.5))


def test_a_slope_is_the_log_odds_ratio_and_its_error_adds_up_four_counts():
    rows = [[1.0, 0.0]] * 5 + [[1.0, 1.0]] * 4
    found = fit(rows, [1.0, 0, 0, 0, 0, 1, 1, 1, 0])

    assert found.coefficients.tolist() == pytest.approx([math.log(1 / 4), math.log(12)])
    # Woolf: the variance is the sum of one over each count.
    assert found.errors.tolist() == pytest.approx(
        [math.sqrt(1 / 1 + 1 / 4), math.sqrt(1 / 1 + 1 / 4 + 1 / 3 + 1 / 1)]
    )


def test_rows_that_say_the_same_twice_do_not_say_more():
    once = fit([[1.0]] * 4, [1.0, 1, 1, 0])
    twice = fit([[1.0]] * 8, [1.0, 1, 1, 0] * 2, [0, 1, 2, 3] * 2)
    apart = fit([[1.0]] * 8, [1.0, 1, 1, 0] * 2)

    assert twice.errors.item() == pytest.approx(once.errors.item())
    assert apart.errors.item() == pytest.approx(once.errors.item() / math.sqrt(2))


def test_shares_are_outcomes_too():
    found = fit([[1.0]] * 3, [0.5, 0.25, 0.75])

    assert found.coefficients.item() == pytest.approx(0.0, abs=1e-12)
    # Residuals 0, -1/4, 1/4; information 3/4.
    assert found.errors.item() == pytest.approx(math.sqrt(2 / 16) / 0.75)


def test_what_is_certain_has_no_finite_coefficient():
    with pytest.raises(DataError, match="columns determine the outcome"):
        fit([[1.0, -1.0], [1.0, -2.0], [1.0, 1.0], [1.0, 2.0]], [0.0, 0, 1, 1])


def test_columns_that_follow_from_others_are_refused():
    with pytest.raises(DataError, match="a column follows from others"):
        fit([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], [0.0, 1, 1])

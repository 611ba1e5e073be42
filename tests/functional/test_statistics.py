import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError, DataError, NumericalError, ShapeError
from rlcomp.functional.pass_at_k import bootstrap_interval, wilson_interval
from rlcomp.functional.statistics import (
    Bin,
    Estimate,
    average_precision,
    clustered_mean,
    difference_interval,
    expected_calibration_error,
    logistic_regression,
    pool,
    rank_correlation,
    reliability,
    roc_auc,
    share_interval,
    z_score,
)


def test_reliability_bins_have_equal_mass():
    probability = torch.tensor([0.75, 0.25, 0.5, 0.125], dtype=torch.float64)
    happened = torch.tensor([True, False, False, True])

    assert reliability(probability, happened, 2) == [Bin(0.1875, 0.5, 2), Bin(0.625, 0.5, 2)]


def test_reliability_has_no_empty_bins():
    assert len(reliability(torch.tensor([0.5, 0.25]), torch.tensor([True, False]), 10)) == 2


def test_calibration_error_is_weighted_by_bin_size():
    assert expected_calibration_error([Bin(0.5, 1.0, 1), Bin(0.5, 0.5, 3)]) == 0.125


def test_calibration_error_of_calibrated_predictions_is_0():
    draw = torch.Generator().manual_seed(0)
    probability = torch.rand(20_000, generator=draw)
    happened = torch.rand(20_000, generator=draw) < probability

    # Ten bins of 2,000: each share has a standard error of .011 at most.
    result = expected_calibration_error(reliability(probability, happened, 10))
    assert result < 0.02
    assert expected_calibration_error(reliability(probability**2, happened, 10)) == pytest.approx(
        1 / 6, abs=0.02
    )


def test_clustered_mean_averages_within_clusters_first():
    # Cluster means 1/4, 1/2, 1/5: mean 19/60; sum of squares 31/600, over 3 * 2.
    values = torch.tensor([0.0, 0.5, 0.2, 0.0, 1.0])

    result = clustered_mean(values, torch.tensor([4, 4, 7, 9, 9]))

    assert result == pytest.approx(Estimate(19 / 60, 31 / 3600))


@pytest.mark.parametrize("cluster", [[], [5, 5]])
def test_clustered_mean_of_one_cluster_raises(cluster):
    with pytest.raises(ConfigError, match=f"over {len(set(cluster))} prompts"):
        clustered_mean(torch.ones(len(cluster)), torch.tensor(cluster, dtype=torch.int64))


def test_pool_of_independent_estimates():
    assert pool([Estimate(1.0, 0.5), Estimate(4.0, 0.25)]) == Estimate(2.5, 0.1875)


@pytest.mark.parametrize(
    ("now", "before", "z"),
    [
        ((0.5, 0.09), (0.9, 0.16), -0.8),
        ((0.5, 0.0), (0.5, 0.0), 0.0),
        ((0.5, 0.0), (0.4, 0.0), math.inf),
        ((0.4, 0.0), (0.5, 0.0), -math.inf),
    ],
)
def test_z_score_is_the_difference_in_standard_deviations(now, before, z):
    assert z_score(Estimate(*now), Estimate(*before)) == pytest.approx(z)


LISTS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=12).filter(
    lambda rows: 0 < sum(label for _, label in rows) < len(rows)
)


def tensors(rows):
    return torch.tensor([float(s) for s, _ in rows]), torch.tensor([label for _, label in rows])


def test_roc_auc_and_average_precision_by_hand():
    # Ranked: + - + (tied with -) - +. Pairs won: 3 of the first, 1.5 of the second, 0 of the third
    # plus none: (3 + 1.5 + 0) / 9. Precision down to each: 1/1, 2/4, 3/6.
    score = torch.tensor([6.0, 5.0, 4.0, 4.0, 2.0, 1.0])
    positive = torch.tensor([True, False, True, False, False, True])

    assert float(roc_auc(score, positive)) == pytest.approx(4.5 / 9)
    assert float(average_precision(score, positive)) == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)


@given(LISTS)
def test_roc_auc_and_average_precision_equal_a_count_of_pairs(rows):
    wins = [
        Fraction(int(a > b)) + Fraction(int(a == b), 2)
        for a, one in rows
        for b, other in rows
        if one and not other
    ]
    kept = [[label for s, label in rows if s >= a] for a, one in rows if one]
    precision = sum(Fraction(sum(labels), len(labels)) for labels in kept) / len(kept)

    assert float(roc_auc(*tensors(rows))) == pytest.approx(float(sum(wins) / len(wins)))
    assert float(average_precision(*tensors(rows))) == pytest.approx(float(precision))


@given(LISTS)
def test_roc_auc_is_invariant_to_rising_maps_and_mirrored_by_falling_ones(rows):
    score, positive = tensors(rows)

    for function in (roc_auc, average_precision):
        assert torch.equal(function(score, positive), function(score.exp(), positive))
    assert float(roc_auc(-score, positive)) == pytest.approx(1 - float(roc_auc(score, positive)))


def test_equal_scores_have_area_one_half():
    positive = torch.tensor([True, False, False, False])

    assert float(roc_auc(torch.zeros(4), positive)) == 0.5
    assert float(average_precision(torch.zeros(4), positive)) == 0.25


def test_infinite_scores_tie():
    # Pairs of + (-inf, inf) and - (-inf, inf, 0): tie, lost, lost; won, tie, won: 3 of 6. Precision
    # down to inf: 1/2; to -inf: 2/5.
    score = torch.tensor([-torch.inf, torch.inf, -torch.inf, torch.inf, 0.0])
    positive = torch.tensor([True, True, False, False, False])

    assert float(roc_auc(score, positive)) == 0.5
    assert float(average_precision(score, positive)) == pytest.approx((1 / 2 + 2 / 5) / 2)


def test_roc_auc_without_both_classes_is_nan():
    assert roc_auc(torch.ones(2), torch.tensor([True, True])).isnan()
    assert average_precision(torch.ones(2), torch.tensor([False, False])).isnan()


def fit(rows, outcome, cluster=None):
    cluster = torch.arange(len(rows)) if cluster is None else torch.tensor(cluster)
    return logistic_regression(torch.tensor(rows), torch.tensor(outcome), cluster)


def test_logistic_intercept_is_the_log_odds():
    result = fit([[1.0]] * 8, [1.0] * 6 + [0.0] * 2)

    assert result.coefficients.item() == pytest.approx(math.log(3))
    # 1 / sqrt(n p (1 - p)) with n = 8 and p = 3/4.
    assert result.errors.item() == pytest.approx(1 / math.sqrt(1.5))


def test_logistic_slope_is_the_log_odds_ratio():
    rows = [[1.0, 0.0]] * 5 + [[1.0, 1.0]] * 4
    result = fit(rows, [1.0, 0, 0, 0, 0, 1, 1, 1, 0])

    assert result.coefficients.tolist() == pytest.approx([math.log(1 / 4), math.log(12)])
    # Woolf: the variance is the sum of one over each count.
    assert result.errors.tolist() == pytest.approx(
        [math.sqrt(1 / 1 + 1 / 4), math.sqrt(1 / 1 + 1 / 4 + 1 / 3 + 1 / 1)]
    )


def test_logistic_errors_are_clustered():
    once = fit([[1.0]] * 4, [1.0, 1, 1, 0])
    twice = fit([[1.0]] * 8, [1.0, 1, 1, 0] * 2, [0, 1, 2, 3] * 2)
    apart = fit([[1.0]] * 8, [1.0, 1, 1, 0] * 2)

    assert twice.errors.item() == pytest.approx(once.errors.item())
    assert apart.errors.item() == pytest.approx(once.errors.item() / math.sqrt(2))


def test_logistic_outcomes_may_be_shares():
    result = fit([[1.0]] * 3, [0.5, 0.25, 0.75])

    assert result.coefficients.item() == pytest.approx(0.0, abs=1e-12)
    # Residuals 0, -1/4, 1/4; information 3/4.
    assert result.errors.item() == pytest.approx(math.sqrt(2 / 16) / 0.75)


def test_logistic_with_a_certain_outcome_raises():
    with pytest.raises(DataError, match="columns determine the outcome"):
        fit([[1.0, -1.0], [1.0, -2.0], [1.0, 1.0], [1.0, 2.0]], [0.0, 0, 1, 1])


def test_logistic_with_dependent_columns_raises():
    with pytest.raises(DataError, match="a column follows from others"):
        fit([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], [0.0, 1, 1])


SHARES = st.lists(st.integers(0, 8), min_size=1, max_size=12)


def generator():
    return torch.Generator().manual_seed(0)


def test_share_interval_of_binary_values_is_wilsons():
    values = torch.tensor([1.0, 0.0, 0.0, 1.0])

    assert share_interval(values, 0.95, generator()) == wilson_interval(2, 4, 0.95)


@pytest.mark.parametrize("interval", [share_interval, difference_interval])
def test_share_interval_of_other_values_is_the_bootstraps(interval):
    values = torch.tensor([0.25, 0.5, 1.0])

    assert interval(values, 0.9, generator()) == bootstrap_interval(values, 0.9, generator())


def test_intervals_of_equal_values_have_wilsons_width():
    # Wilson's upper end of 0 in 3 at z = 1.959964: z^2 / (3 + z^2) = 3.841459 / 6.841459.
    width = 0.561497

    assert share_interval(torch.full((3,), 0.75), 0.95, generator()) == pytest.approx(
        (0.75 - width, 1.0), abs=1e-6
    )
    assert difference_interval(torch.full((3,), -0.25), 0.95, generator()) == pytest.approx(
        (-0.25 - width, -0.25 + width), abs=1e-6
    )
    # Within what a difference can be, at either end.
    assert difference_interval(torch.full((3,), -0.75), 0.95, generator()) == pytest.approx(
        (-1.0, -0.75 + width), abs=1e-6
    )
    assert difference_interval(torch.full((3,), 0.75), 0.95, generator()) == pytest.approx(
        (0.75 - width, 1.0), abs=1e-6
    )
    assert share_interval(torch.full((3,), 0.25), 0.95, generator()) == pytest.approx(
        (0.0, 0.25 + width), abs=1e-6
    )


def test_interval_values_within_rounding_are_equal():
    third = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) / 3
    gained = torch.cat([third[1:] - third[:-1], third[:1]])
    assert len(gained.unique()) > 1

    low, high = difference_interval(gained, 0.95, generator())

    assert high - low > 1


@given(SHARES)
def test_share_interval_contains_the_mean_within_0_and_1(counts):
    values = torch.tensor(counts, dtype=torch.float64) / 8

    low, high = share_interval(values, 0.95, generator())

    assert 0 <= low <= float(values.mean()) + 1e-12
    assert float(values.mean()) - 1e-12 <= high <= 1
    assert high > low


@pytest.mark.parametrize("interval", [share_interval, difference_interval])
def test_interval_of_no_problem_raises(interval):
    with pytest.raises(ConfigError, match="at least one problem"):
        interval(torch.zeros(0), 0.95, generator())


def test_rank_correlation_without_ties_is_the_formula():
    # Ranks 0 1 2 3 and 1 0 3 2: each differs by 1, so 1 - 6 * 4 / (4 * (16 - 1)) = 0.6.
    assert rank_correlation([1, 2, 3, 4], [20, 10, 90, 40]) == pytest.approx(0.6)


def test_rank_correlation_uses_mean_ranks_for_ties():
    # Ranks 0.5 0.5 2 and 0 1 2, centred -.5 -.5 1 and -1 0 1: 1.5 / sqrt(1.5 * 2).
    assert rank_correlation([5, 5, 9], [1, 2, 3]) == pytest.approx(np.sqrt(0.75))


def test_rank_correlation_of_a_constant_is_0():
    assert rank_correlation([1, 2, 3], [0.1, 0.1, 0.1]) == 0.0


@given(values=st.lists(st.integers(-9, 9), min_size=2, max_size=8, unique=True))
def test_rank_correlation_depends_on_the_order_only(values):
    numbers = np.asarray(values, dtype=np.float64)
    steps = np.arange(len(values), dtype=np.float64)

    assert rank_correlation(steps, np.exp(numbers)) == pytest.approx(
        rank_correlation(steps, numbers)
    )
    assert rank_correlation(steps, -numbers) == pytest.approx(-rank_correlation(steps, numbers))
    assert rank_correlation(numbers, numbers**3) == pytest.approx(1.0)


def test_rank_correlation_of_two_lengths_raises():
    with pytest.raises(ShapeError, match=r"\[3\] and \[2\]"):
        rank_correlation([1, 2, 3], [1, 2])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_rank_correlation_of_nan_raises(wrong):
    with pytest.raises(NumericalError, match="not finite: leave such pairs out"):
        rank_correlation([1, 2, 3], [1, wrong, 2])
    with pytest.raises(NumericalError, match="not finite"):
        rank_correlation([wrong, 2, 3], [1, 2, 3])

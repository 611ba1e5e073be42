"""ROC area and average precision: by hand, by counting pairs, and their invariances."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.statistics import average_precision, roc_auc

LISTS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=12).filter(
    lambda rows: 0 < sum(label for _, label in rows) < len(rows)
)


def tensors(rows):
    return torch.tensor([float(s) for s, _ in rows]), torch.tensor([label for _, label in rows])


def test_six_texts_by_hand():
    # Ranked: + - + (tied with -) - +. Pairs won: 3 of the first, 1.5 of the second, 0 of the third
    # plus none: (3 + 1.5 + 0) / 9. Precision down to each: 1/1, 2/4, 3/6.
    score = torch.tensor([6.0, 5.0, 4.0, 4.0, 2.0, 1.0])
    positive = torch.tensor([True, False, True, False, False, True])

    assert float(roc_auc(score, positive)) == pytest.approx(4.5 / 9)
    assert float(average_precision(score, positive)) == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)


@given(LISTS)
def test_they_are_what_counting_gives(rows):
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
def test_a_rising_map_of_the_scores_changes_nothing_and_a_falling_one_mirrors_the_area(rows):
    score, positive = tensors(rows)

    for function in (roc_auc, average_precision):
        assert torch.equal(function(score, positive), function(score.exp(), positive))
    assert float(roc_auc(-score, positive)) == pytest.approx(1 - float(roc_auc(score, positive)))


def test_scores_that_know_nothing_give_one_half_and_the_share():
    positive = torch.tensor([True, False, False, False])

    assert float(roc_auc(torch.zeros(4), positive)) == 0.5
    assert float(average_precision(torch.zeros(4), positive)) == 0.25


def test_infinite_scores_tie_with_one_another():
    # Pairs of + (-inf, inf) and - (-inf, inf, 0): tie, lost, lost; won, tie, won: 3 of 6. Precision
    # down to inf: 1/2; to -inf: 2/5.
    score = torch.tensor([-torch.inf, torch.inf, -torch.inf, torch.inf, 0.0])
    positive = torch.tensor([True, True, False, False, False])

    assert float(roc_auc(score, positive)) == 0.5
    assert float(average_precision(score, positive)) == pytest.approx((1 / 2 + 2 / 5) / 2)


def test_without_both_kinds_there_is_no_area():
    assert roc_auc(torch.ones(2), torch.tensor([True, True])).isnan()
    assert average_precision(torch.ones(2), torch.tensor([False, False])).isnan()

from fractions import Fraction
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import g_pass_at_k, mean_g_pass_at_k, pass_at_k


def one(n, c, k, threshold):
    return g_pass_at_k(torch.tensor([n]), torch.tensor([c]), k, threshold).item()


def test_two_of_three_by_hand():
    # 5 answers, 3 right, 3 drawn of 10 ways: 3 right 1 way, 2 right 3 x 2 ways, 1 right 3 x 1.
    assert [one(5, 3, 3, share) for share in (1.0, 0.67, 0.5, 0.3, 0.0)] == [0.1, 0.1, 0.7, 1, 1]


def test_thresholds_are_decimal_numbers():
    # As floats 0.7 x 10 and 0.55 x 100 are above 7 and 55: eight and 56 would be asked for.
    assert one(10, 7, 10, 0.7) == one(100, 55, 100, 0.55) == 1.0
    assert one(10, 7, 10, 0.71) == one(10, 6, 10, Fraction(7, 10)) == 0.0


@given(st.integers(1, 7), st.data())
def test_it_is_the_share_of_draws_with_enough_right_ones(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    least = data.draw(st.integers(1, k))
    draws = list(combinations(range(n), k))

    hits = sum(sum(answer < c for answer in draw) >= least for draw in draws)

    assert one(n, c, k, Fraction(least, k)) == float(Fraction(hits, len(draws)))


@given(st.integers(1, 60), st.data())
def test_at_no_threshold_it_is_pass_at_k(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))

    assert one(n, c, k, 0.0) == pass_at_k(torch.tensor([n]), torch.tensor([c]), k).item()


def test_the_mean_over_thresholds_by_hand():
    # k = 3: thresholds 3/3 alone, 2/3 x 0.1. k = 4 of 5 answers, 3 right: 3/4 and 4/4;
    # of the 5 draws 2 hold three right ones: 2/4 x (2/5 + 0).
    n, c = torch.tensor([5, 5]), torch.tensor([3, 5])
    assert mean_g_pass_at_k(n, c, 3).tolist() == pytest.approx([2 / 30, 2 / 3])
    assert mean_g_pass_at_k(n, c, 4).tolist() == pytest.approx([0.2, 1.0])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_between_nothing_and_all(share):
    with pytest.raises(ConfigError, match=r"threshold is .*: must be at least 0 and at most 1"):
        one(2, 1, 1, share)


def test_more_draws_than_answers_are_refused():
    with pytest.raises(ConfigError, match="n = 2 answers"):
        one(2, 1, 3, 0.5)
    with pytest.raises(ConfigError, match="n = 2 answers"):
        mean_g_pass_at_k(torch.tensor([2]), torch.tensor([1]), 3)
    with pytest.raises(ConfigError, match="mG-Pass@1 needs k >= 2"):
        mean_g_pass_at_k(torch.tensor([2]), torch.tensor([1]), 1)

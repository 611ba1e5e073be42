from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import maj_at_k


def test_a_vote_of_three_by_hand():
    # 5 answers: 2 right (r), 2 the same wrong one (w), 1 unreadable (u); 3 of them, 10 draws.
    # rrw 2 and rru 1: won. rww 2, wwu 1: lost. rwu 4: tied, half won. (3 + 4/2) / 10.
    assert maj_at_k(2, [2], 1, 3) == 0.5


def test_a_tie_of_three_is_won_in_a_third():
    assert maj_at_k(2, [2, 2], 0, 6) == pytest.approx(1 / 3)


def test_what_cannot_be_read_never_wins():
    assert maj_at_k(1, [], 5, 6) == 1.0
    assert maj_at_k(0, [], 5, 5) == 0.0
    assert maj_at_k(1, [], 2, 1) == 1 / 3


@given(
    st.integers(0, 4),
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(0, 2),
    st.data(),
)
def test_it_is_the_mean_over_all_draws(right, wrong, invalid, data):
    answers = ["right"] * right + [None] * invalid
    answers += [str(index) for index, size in enumerate(wrong) for _ in range(size)]
    if not answers:
        return
    k = data.draw(st.integers(1, len(answers)))
    won = Fraction(0)
    draws = list(combinations(answers, k))
    for draw in draws:
        votes = Counter(answer for answer in draw if answer is not None)
        best = [answer for answer, count in votes.items() if count == max(votes.values())]
        won += Fraction("right" in best, max(len(best), 1))

    assert maj_at_k(right, wrong, invalid, k) == float(won / len(draws))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_one_vote_is_the_plain_rate(right, wrong, invalid):
    if n := right + wrong + invalid:
        assert maj_at_k(right, [wrong], invalid, 1) == right / n


@pytest.mark.parametrize("counts", [(-1, [2], 1), (1, [-1], 3), (1, [1], -1), (1, [1], 0)])
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises(ConfigError, match=r"^maj@3 of .*: counts must be at least 0, and k betw"):
        maj_at_k(*counts, 3)

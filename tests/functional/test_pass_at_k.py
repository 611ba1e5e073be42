import json
from collections import Counter
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import (
    bootstrap_interval,
    g_pass_at_k,
    maj_at_k,
    mean_g_pass_at_k,
    pass_at_k,
    wilson_interval,
)

# Values of human-eval's estimate_pass_at_k (openai/human-eval 6d43fb9), n up to 100.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "pass_at_k.json").read_text())


def one_pass_at_k(n: int, c: int, k: int) -> float:
    return pass_at_k(torch.tensor([n]), torch.tensor([c]), k).item()


def test_pass_at_k_by_hand():
    # 1 - C(7,k)/C(10,k): 1 - 7/10, 1 - 21/45, 1 - 21/252, and 8 of 10 cannot miss all three.
    assert [one_pass_at_k(10, 3, k) for k in (1, 2, 5, 8)] == [3 / 10, 24 / 45, 231 / 252, 1.0]


def test_pass_at_k_equals_the_authors_code():
    for row in GOLDEN["rows"]:
        value = one_pass_at_k(row["n"], row["c"], row["k"])
        assert value == pytest.approx(row["pass_at_k"], rel=GOLDEN["rtol"], abs=1e-15)


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_right_answer(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations(range(n), k))

    hits = sum(any(answer < c for answer in draw) for draw in draws)

    assert one_pass_at_k(n, c, k) == float(Fraction(hits, len(draws)))


@given(st.integers(1, 400), st.data())
def test_pass_at_k_rises_with_right_answers_and_draws(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))

    assert one_pass_at_k(n, c, k) >= one_pass_at_k(n, max(c - 1, 0), k)
    assert one_pass_at_k(n, c, k) >= one_pass_at_k(n, c, max(k - 1, 1))


@given(st.integers(1, 2000), st.data())
def test_pass_at_1_is_the_success_rate(n, data):
    c = data.draw(st.integers(0, n))

    assert one_pass_at_k(n, c, 1) == c / n


def test_pass_at_k_of_problems_with_different_numbers_of_answers():
    values = pass_at_k(torch.tensor([2, 4]), torch.tensor([1, 1]), 2)

    # 1 - C(1,2)/C(2,2) = 1;  1 - C(3,2)/C(4,2) = 1 - 3/6
    assert values.tolist() == [1.0, 0.5]
    assert values.dtype == torch.float64


@pytest.mark.parametrize(("n", "k"), [(4, 5), (4, 0), (4, -1)])
def test_pass_at_k_outside_1_to_n_raises(n, k):
    with pytest.raises(ConfigError, match=rf"pass@{k} needs 1 <= k <= n"):
        one_pass_at_k(n, 2, k)


@pytest.mark.parametrize("c", [-1, 5])
def test_more_right_answers_than_answers_raise(c):
    with pytest.raises(ConfigError, match="right answers of 4"):
        one_pass_at_k(4, c, 1)


def test_wilson_interval_of_0_of_10_by_hand():
    # Rate 0: the interval is [0, z^2 / (n + z^2)], z = 1.959963984540054.
    low, high = wilson_interval(0, 10, 0.95)

    assert low == pytest.approx(0.0, abs=1e-15)
    assert high == pytest.approx(3.8414588206941 / 13.8414588206941, rel=1e-12)


@given(st.integers(1, 200), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_bounds_solve_the_score_test(trials, data, level):
    scipy_stats = pytest.importorskip("scipy.stats")
    successes = data.draw(st.integers(0, trials))

    bounds = wilson_interval(successes, trials, level)

    test = scipy_stats.binomtest(successes, trials)
    reference = test.proportion_ci(confidence_level=level, method="wilson")
    assert bounds == pytest.approx((reference.low, reference.high), abs=1e-12)


@given(st.integers(1, 100), st.data())
def test_wilson_mirrors_successes_and_failures(trials, data):
    successes = data.draw(st.integers(0, trials))

    low, high = wilson_interval(successes, trials, 0.95)
    mirrored = wilson_interval(trials - successes, trials, 0.95)

    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (0, 0), (3, 2), (-1, 2)])
def test_wilson_interval_of_impossible_counts_raises(successes, trials):
    with pytest.raises(ConfigError, match="trials"):
        wilson_interval(successes, trials, 0.95)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_outside_0_to_1_raises(level):
    with pytest.raises(ConfigError, match="level is"):
        wilson_interval(1, 2, level)
    with pytest.raises(ConfigError, match="level is"):
        bootstrap_interval(torch.ones(2), level, torch.Generator())


def test_bootstrap_interval_of_equal_values_is_a_point():
    interval = bootstrap_interval(torch.full((5,), 0.25), 0.95, torch.Generator().manual_seed(0))

    assert interval == (0.25, 0.25)


def test_bootstrap_interval_has_the_width_of_the_standard_error():
    # 400 problems, half of them solved: se = 0.5 / 20 = 0.025, so mean -+ 1.96 se = [0.451, 0.549];
    # the quantile of 2,000 resamples is good to about 0.003.
    values = torch.arange(400) % 2

    low, high = bootstrap_interval(values, 0.95, torch.Generator().manual_seed(0))

    assert low == pytest.approx(0.451, abs=0.006)
    assert high == pytest.approx(0.549, abs=0.006)


def test_bootstrap_interval_depends_on_the_generator_only():
    values = torch.arange(10.0)
    first, second = (
        bootstrap_interval(values, 0.9, torch.Generator().manual_seed(3), 50) for _ in range(2)
    )

    assert first == second


@pytest.mark.parametrize(
    ("size", "resamples", "blocks"),
    # A block has at most 2^20 = 1,048,576 problems: 1,497 resamples of 700, and one of more.
    [(3, 2000, [2000]), (700, 2000, [1497, 503]), (2**20 + 1, 2, [1, 1])],
)
def test_bootstrap_interval_draws_one_resample_after_another(size, resamples, blocks, monkeypatch):
    values, drawn, draw = torch.arange(size) % 7 / 7, [], torch.randint
    draws = torch.Generator().manual_seed(5)
    each = [torch.randint(size, (size,), generator=draws) for _ in range(resamples)]
    means = torch.stack([values.double()[problems].mean() for problems in each])
    monkeypatch.setattr(
        torch, "randint", lambda *given, **named: drawn.append(given[1]) or draw(*given, **named)
    )

    result = bootstrap_interval(values, 0.5, torch.Generator().manual_seed(5), resamples)

    quartiles = torch.tensor([0.25, 0.75], dtype=torch.float64)
    assert result == pytest.approx(torch.quantile(means, quartiles).tolist(), abs=1e-12)
    assert drawn == [(rows, size) for rows in blocks]


def test_bootstrap_interval_of_no_problem_raises():
    with pytest.raises(ConfigError, match="at least one problem"):
        bootstrap_interval(torch.zeros(0), 0.95, torch.Generator())


def one_g_pass_at_k(n, c, k, threshold):
    return g_pass_at_k(torch.tensor([n]), torch.tensor([c]), k, threshold).item()


def test_g_pass_at_k_by_hand():
    # 5 answers, 3 right, 3 drawn of 10 ways: 3 right 1 way, 2 right 3 x 2 ways, 1 right 3 x 1.
    assert [one_g_pass_at_k(5, 3, 3, share) for share in (1.0, 0.67, 0.5, 0.3, 0.0)] == [
        0.1,
        0.1,
        0.7,
        1,
        1,
    ]


def test_g_pass_at_k_reads_thresholds_as_decimal_numbers():
    # As floats 0.7 x 10 and 0.55 x 100 are above 7 and 55: eight and 56 would be asked for.
    assert one_g_pass_at_k(10, 7, 10, 0.7) == one_g_pass_at_k(100, 55, 100, 0.55) == 1.0
    assert one_g_pass_at_k(10, 7, 10, 0.71) == one_g_pass_at_k(10, 6, 10, Fraction(7, 10)) == 0.0


@given(st.integers(1, 7), st.data())
def test_g_pass_at_k_is_the_share_of_draws_with_enough_right_answers(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    least = data.draw(st.integers(1, k))
    draws = list(combinations(range(n), k))

    hits = sum(sum(answer < c for answer in draw) >= least for draw in draws)

    assert one_g_pass_at_k(n, c, k, Fraction(least, k)) == float(Fraction(hits, len(draws)))


@given(st.integers(1, 60), st.data())
def test_g_pass_at_k_at_threshold_0_is_pass_at_k(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))

    assert (
        one_g_pass_at_k(n, c, k, 0.0) == pass_at_k(torch.tensor([n]), torch.tensor([c]), k).item()
    )


def test_mean_g_pass_at_k_by_hand():
    # k = 3: thresholds 3/3 alone, 2/3 x 0.1. k = 4 of 5 answers, 3 right: 3/4 and 4/4;
    # of the 5 draws 2 hold three right ones: 2/4 x (2/5 + 0).
    n, c = torch.tensor([5, 5]), torch.tensor([3, 5])
    assert mean_g_pass_at_k(n, c, 3).tolist() == pytest.approx([2 / 30, 2 / 3])
    assert mean_g_pass_at_k(n, c, 4).tolist() == pytest.approx([0.2, 1.0])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_g_pass_at_k_with_a_threshold_outside_0_to_1_raises(share):
    with pytest.raises(ConfigError, match=r"threshold is .*: must be at least 0 and at most 1"):
        one_g_pass_at_k(2, 1, 1, share)


def test_g_pass_at_k_with_more_draws_than_answers_raises():
    with pytest.raises(ConfigError, match="n = 2 answers"):
        one_g_pass_at_k(2, 1, 3, 0.5)
    with pytest.raises(ConfigError, match="n = 2 answers"):
        mean_g_pass_at_k(torch.tensor([2]), torch.tensor([1]), 3)
    with pytest.raises(ConfigError, match="mG-Pass@1 needs k >= 2"):
        mean_g_pass_at_k(torch.tensor([2]), torch.tensor([1]), 1)


def test_maj_at_3_by_hand():
    # 5 answers: 2 right (r), 2 the same wrong one (w), 1 unreadable (u); 3 of them, 10 draws.
    # rrw 2 and rru 1: won. rww 2, wwu 1: lost. rwu 4: tied, half won. (3 + 4/2) / 10.
    assert maj_at_k(2, [2], 1, 3) == 0.5


def test_a_tie_of_three_classes_is_won_in_a_third():
    assert maj_at_k(2, [2, 2], 0, 6) == pytest.approx(1 / 3)


def test_invalid_answers_never_win_a_vote():
    assert maj_at_k(1, [], 5, 6) == 1.0
    assert maj_at_k(0, [], 5, 5) == 0.0
    assert maj_at_k(1, [], 2, 1) == 1 / 3


@given(
    st.integers(0, 4),
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(0, 2),
    st.data(),
)
def test_maj_at_k_is_the_mean_over_all_draws(right, wrong, invalid, data):
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
def test_maj_at_1_is_the_success_rate(right, wrong, invalid):
    if n := right + wrong + invalid:
        assert maj_at_k(right, [wrong], invalid, 1) == right / n


@pytest.mark.parametrize("counts", [(-1, [2], 1), (1, [-1], 3), (1, [1], -1), (1, [1], 0)])
def test_maj_at_k_of_impossible_counts_raises(counts):
    with pytest.raises(ConfigError, match=r"^maj@3 of .*: counts must be at least 0, and k betw"):
        maj_at_k(*counts, 3)

import json
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ConfigError
from rlcomp.functional.pass_at_k import bootstrap_interval, pass_at_k, wilson_interval

# Values of human-eval's estimate_pass_at_k (openai/human-eval 6d43fb9), n up to 100.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "pass_at_k.json").read_text())


def one(n: int, c: int, k: int) -> float:
    return pass_at_k(torch.tensor([n]), torch.tensor([c]), k).item()


def test_three_right_of_ten_by_hand():
    # 1 - C(7,k)/C(10,k): 1 - 7/10, 1 - 21/45, 1 - 21/252, and 8 of 10 cannot miss all three.
    assert [one(10, 3, k) for k in (1, 2, 5, 8)] == [3 / 10, 24 / 45, 231 / 252, 1.0]


def test_the_table_of_the_paper_s_code_is_reproduced():
    for row in GOLDEN["rows"]:
        value = one(row["n"], row["c"], row["k"])
        assert value == pytest.approx(row["pass_at_k"], rel=GOLDEN["rtol"], abs=1e-15)


@given(st.integers(1, 7), st.data())
def test_it_is_the_share_of_draws_that_hold_a_right_answer(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations(range(n), k))

    hits = sum(any(answer < c for answer in draw) for draw in draws)

    assert one(n, c, k) == float(Fraction(hits, len(draws)))


@given(st.integers(1, 400), st.data())
def test_more_right_answers_and_more_draws_never_hurt(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))

    assert one(n, c, k) >= one(n, max(c - 1, 0), k)
    assert one(n, c, k) >= one(n, c, max(k - 1, 1))


@given(st.integers(1, 2000), st.data())
def test_one_draw_is_the_plain_rate(n, data):
    c = data.draw(st.integers(0, n))

    assert one(n, c, 1) == c / n


def test_problems_with_different_numbers_of_answers_stand_side_by_side():
    values = pass_at_k(torch.tensor([2, 4]), torch.tensor([1, 1]), 2)

    # 1 - C(1,2)/C(2,2) = 1;  1 - C(3,2)/C(4,2) = 1 - 3/6
    assert values.tolist() == [1.0, 0.5]
    assert values.dtype == torch.float64


@pytest.mark.parametrize(("n", "k"), [(4, 5), (4, 0), (4, -1)])
def test_k_outside_1_to_n_is_refused(n, k):
    with pytest.raises(ConfigError, match=rf"pass@{k} needs 1 <= k <= n"):
        one(n, 2, k)


@pytest.mark.parametrize("c", [-1, 5])
def test_more_right_answers_than_answers_are_refused(c):
    with pytest.raises(ConfigError, match="right answers of 4"):
        one(4, c, 1)


def test_wilson_for_nothing_of_ten_by_hand():
    # Rate 0: the interval is [0, z^2 / (n + z^2)], z = 1.959963984540054.
    low, high = wilson_interval(0, 10, 0.95)

    assert low == pytest.approx(0.0, abs=1e-15)
    assert high == pytest.approx(3.8414588206941 / 13.8414588206941, rel=1e-12)


@given(st.integers(1, 200), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_bounds_are_where_the_score_test_is_just_passed(trials, data, level):
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
def test_wilson_refuses_impossible_counts(successes, trials):
    with pytest.raises(ConfigError, match="trials"):
        wilson_interval(successes, trials, 0.95)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_outside_0_to_1_is_refused(level):
    with pytest.raises(ConfigError, match="level is"):
        wilson_interval(1, 2, level)
    with pytest.raises(ConfigError, match="level is"):
        bootstrap_interval(torch.ones(2), level, torch.Generator())


def test_the_bootstrap_of_equal_values_is_a_point():
    interval = bootstrap_interval(torch.full((5,), 0.25), 0.95, torch.Generator().manual_seed(0))

    assert interval == (0.25, 0.25)


def test_the_bootstrap_is_as_wide_as_the_standard_error_says():
    # 400 problems, half of them solved: se = 0.5 / 20 = 0.025, so mean -+ 1.96 se = [0.451, 0.549];
    # the quantile of 2,000 resamples is good to about 0.003.
    values = torch.arange(400) % 2

    low, high = bootstrap_interval(values, 0.95, torch.Generator().manual_seed(0))

    assert low == pytest.approx(0.451, abs=0.006)
    assert high == pytest.approx(0.549, abs=0.006)


def test_the_bootstrap_depends_on_the_generator_only():
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
def test_the_bootstrap_draws_resample_after_resample(size, resamples, blocks, monkeypatch):
    values, drawn, draw = torch.arange(size) % 7 / 7, [], torch.randint
    one = torch.Generator().manual_seed(5)
    each = [torch.randint(size, (size,), generator=one) for _ in range(resamples)]
    means = torch.stack([values.double()[problems].mean() for problems in each])
    monkeypatch.setattr(
        torch, "randint", lambda *given, **named: drawn.append(given[1]) or draw(*given, **named)
    )

    found = bootstrap_interval(values, 0.5, torch.Generator().manual_seed(5), resamples)

    quartiles = torch.tensor([0.25, 0.75], dtype=torch.float64)
    assert found == pytest.approx(torch.quantile(means, quartiles).tolist(), abs=1e-12)
    assert drawn == [(rows, size) for rows in blocks]


def test_the_bootstrap_of_no_problem_is_refused():
    with pytest.raises(ConfigError, match="at least one problem"):
        bootstrap_interval(torch.zeros(0), 0.95, torch.Generator())

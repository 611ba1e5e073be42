import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.length import (
    grpo_lead,
    kimi_length,
    l1_exact,
    l1_max,
    length_deviation,
    soft_overlong,
    solved_length_penalty,
    stop_properly,
)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def flags(*values):
    return torch.tensor(values, dtype=torch.bool)


def one_group(rows):
    return torch.zeros(rows, dtype=torch.int64)


def assert_near(got, want):
    torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)


# Golden vectors.


# Values by hand.


def test_beyond_the_limit_the_overlong_penalty_stays_where_it_is():
    # Unlike AReaL's and verl's, which go on falling: -1.5 at 16 of 10 tokens with a buffer of 4.
    assert soft_overlong(double(10, 16, 1000), 10, 4, 2.0).tolist() == [-2.0, -2.0, -2.0]


def test_l1_max_pays_at_most_1_and_at_least_0():
    # 0.5 + 0.01 * (100 - L): 1.2 and -7.5 are clipped.
    reward = l1_max(double(30, 100, 900), flags(1, 1, 1), 100.0, alpha=0.01, delta=0.5)

    assert reward.tolist() == [1.0, 0.5, 0.0]


def test_equal_lengths_earn_nothing_from_kimi():
    right = flags(True, False, True)

    assert kimi_length(double(7, 7, 7), right, one_group(3), flags(1, 1, 1)).tolist() == [0.0] * 3


def test_an_invalid_row_is_neither_the_longest_nor_paid():
    # Without the third, 20 is the longest: 0.5 and -0.5.
    score = kimi_length(double(10, 20, 90), flags(1, 1, 1), one_group(3), flags(1, 1, 0))

    assert score.tolist() == [0.5, -0.5, 0.0]


def test_a_group_without_a_valid_row_is_0():
    score = kimi_length(double(10, 20), flags(1, 1), one_group(2), flags(0, 0))

    assert score.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_lengths_deviate_by_exactly_0(dtype):
    length = torch.full((7,), 12345.0, dtype=dtype)

    assert length_deviation(length, one_group(7), flags(*[True] * 7)).tolist() == [0.0] * 7


def test_the_only_right_answer_gets_1_from_grpo_lead():
    assert grpo_lead(double(900, 3), flags(1, 0), one_group(2), 0.05).tolist() == [1.0, -1.0]


def test_the_penalty_is_the_sigmoid_of_the_deviation_where_the_group_is_solved():
    # Group 0: right ones 10 and 20 of three answers, mean 15, std 5: z = -1, 1. Group 1: one of
    # three right: below one half.
    length, group = double(10, 20, 99, 10, 20, 99), torch.tensor([0, 0, 0, 1, 1, 1])
    right, valid = flags(1, 1, 0, 1, 0, 0), flags(1, 1, 1, 1, 1, 1)

    penalty = solved_length_penalty(length, right, group, valid, 0.5)

    low, high = 1 / (1 + math.e), 1 / (1 + 1 / math.e)
    assert_near(penalty, double(-low, -high, 0, 0, 0, 0))


def test_accuracy_is_taken_over_valid_answers():
    # Two of three are right; two of the two valid ones.
    length, right = double(10, 20, 30), flags(1, 1, 0)

    whole = solved_length_penalty(length, right, one_group(3), flags(1, 1, 0), 1.0)

    assert bool((whole[:2] < 0).all())
    assert solved_length_penalty(length, right, one_group(3), flags(1, 1, 1), 1.0).tolist() == [
        0.0,
        0.0,
        0.0,
    ]


def test_a_truncated_answer_keeps_a_share_or_gets_the_coefficient():
    reward, cut = double(1, 1, -1), flags(1, 0, 1)

    assert stop_properly(reward, cut, 0.5).tolist() == [0.5, 1.0, -0.5]
    assert stop_properly(reward, cut, -2.0).tolist() == [-2.0, 1.0, -2.0]


# Laws.


def lead(length, right, group):
    return grpo_lead(length, right, group, 0.3)


def kimi(length, right, group):
    return right.double() + kimi_length(length, right, group, torch.ones_like(right))


def penalised(length, right, group):
    valid = torch.ones_like(right)
    return right.double() + 0.9 * solved_length_penalty(length, right, group, valid, 0.25)


def exact(length, right, group):
    # No longer than the target all lengths are above.
    return l1_exact(length, right, 1.0, 0.01)


def longest(length, right, group):
    return l1_max(length, right, 60.0, 0.005, 0.5)


def overlong(length, right, group):
    return right.double() + soft_overlong(length, 50, 20, 0.5)


RULES = pytest.mark.parametrize("rule", [lead, kimi, penalised, exact, longest, overlong])
ROWS = st.lists(
    st.tuples(st.integers(1, 80), st.booleans(), st.integers(0, 2)), min_size=2, max_size=12
)


def columns(rows):
    length, right, group = zip(*rows, strict=True)
    return double(*length), flags(*right), torch.tensor(group)


@RULES
@given(rows=ROWS)
def test_of_two_right_answers_of_a_group_the_longer_earns_no_more(rule, rows):
    length, right, group = columns(rows)

    reward = rule(length, right, group)

    for i in range(len(rows)):
        for j in range(len(rows)):
            if right[i] and right[j] and group[i] == group[j] and length[i] <= length[j]:
                assert reward[i] >= reward[j] - 1e-12


@RULES
@given(rows=ROWS)
def test_of_two_answers_of_equal_length_the_right_one_earns_more(rule, rows):
    length, right, group = columns([*rows, (30, True, 0), (30, False, 0)])

    reward = rule(length, right, group)

    assert reward[-2] > reward[-1]


@RULES
@given(rows=ROWS, random=st.randoms(use_true_random=False))
def test_rows_may_come_in_any_order(rule, rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    length, right, group = columns(rows)

    moved = rule(length[order], right[order], group[order])

    assert_near(moved, rule(length, right, group)[order])


@given(st.integers(1, 40), st.integers(0, 20), st.floats(0, 3), st.floats(-30, 90))
def test_the_overlong_penalty_is_continuous_and_falls_by_factor_over_buffer(
    buffer, more, factor, at
):
    limit, step = buffer + more, 1e-3
    before, after = soft_overlong(double(at, at + step), limit, buffer, factor).tolist()

    slope = (after - before) / step
    assert -factor / buffer - 1e-6 <= slope <= 1e-6
    if limit - buffer < at < limit - step:
        assert slope == pytest.approx(-factor / buffer, abs=1e-6)


@given(rows=ROWS)
def test_wrong_answers_earn_nothing_by_being_short(rows):
    length, right, group = columns(rows)
    valid = torch.ones_like(right)

    assert bool((kimi_length(length, right, group, valid)[~right] <= 0).all())
    assert bool((solved_length_penalty(length, right, group, valid, 0.0)[~right] == 0).all())
    assert bool((grpo_lead(length, right, group, 0.3)[~right] == -1).all())

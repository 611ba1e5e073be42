"""The best of k of n responses, against every subset of k."""

from itertools import combinations
from math import comb
from statistics import mean, pstdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.best_of import (
    best_of_k,
    group_best_of_k,
    pass_at_k_training_advantage,
    pkpo_advantage,
)
from rlcomp.functional.pass_at_k import pass_at_k

# Ties are what goes wrong: few values.
rewards = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 1.0]), min_size=2, max_size=7)
sized = rewards.flatmap(lambda values: st.tuples(st.just(values), st.integers(2, len(values))))


def one_group(function, values, *arguments):
    reward = torch.tensor(values, dtype=torch.float64)
    group, valid = torch.full((len(values),), 7), torch.ones(len(values)).bool()
    return function(reward, group, valid, *arguments).tolist()


def subsets(values, k):
    return list(combinations(range(len(values)), k))


@given(sized)
def test_the_best_of_k_is_the_mean_over_all_subsets(case):
    values, k = case

    want = mean(max(values[i] for i in subset) for subset in subsets(values, k))

    assert best_of_k(torch.tensor(values).double(), k).item() == pytest.approx(want, abs=1e-12)
    assert one_group(group_best_of_k, values, k) == pytest.approx([want] * len(values))


@pytest.mark.parametrize(("n", "c", "k"), [(10, 3, 2), (16, 1, 8), (7, 6, 2), (5, 0, 5)])
def test_of_right_and_wrong_it_is_pass_at_k(n, c, k):
    values = torch.tensor([1.0] * c + [0.0] * (n - c), dtype=torch.float64)

    want = pass_at_k(torch.tensor([n]), torch.tensor([c]), k).item()

    assert best_of_k(values, k).item() == pytest.approx(want)


@given(sized)
def test_pkpo_is_what_an_answer_adds_to_the_subsets_that_hold_it(case):
    values, k = case

    want = [0.0] * len(values)
    for subset in subsets(values, k):
        for i in subset:
            others = max(values[j] for j in subset if j != i)
            want[i] += max(0.0, values[i] - others) / comb(len(values), k)

    got = one_group(pkpo_advantage, values, k, None)
    assert got == pytest.approx(want, abs=1e-12)
    # Exactly 0 is no signal; a residue would be one, and count as one.
    assert [value == 0 for value in got] == [value == 0 for value in want]


def test_pkpo_by_hand():
    # n = 5, k = 3, R = 0 2 1 2 5, sorted 0 1 2 2 5; weights C(j, 1) / 10 of the j-th from below,
    # 0 1/10 2/10 3/10: of 5 it is 4/10 + 6/10 + 9/10, of each 2 (2 - 1) / 10.
    got = one_group(pkpo_advantage, [0.0, 2.0, 1.0, 2.0, 5.0], 3, None)

    assert got == pytest.approx([0, 0.1, 0, 0.1, 1.9])


@given(sized)
def test_pass_at_k_training_averages_the_advantages_of_the_subsets(case):
    values, k = case

    best = {subset: max(values[i] for i in subset) for subset in subsets(values, k)}
    centre, spread = mean(best.values()), pstdev(best.values())
    own = [mean(b for subset, b in best.items() if i in subset) for i in range(len(values))]
    want = [(value - centre) / spread if spread else 0.0 for value in own]

    got = one_group(pass_at_k_training_advantage, values, k)
    assert got == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(8, 2, 4), (6, 1, 3), (5, 3, 2)])
def test_pass_at_k_training_has_the_paper_s_closed_form(n, c, k):
    # Of c right and n - c wrong answers.
    share = 1 - comb(n - c, k) / comb(n, k)
    spread = (share * (1 - share)) ** 0.5
    right = (1 - share) / spread
    wrong = (1 - share - comb(n - c - 1, k - 1) / comb(n - 1, k - 1)) / spread

    got = one_group(pass_at_k_training_advantage, [1.0] * c + [0.0] * (n - c), k)

    assert got == pytest.approx([right] * c + [wrong] * (n - c))


@pytest.mark.parametrize("function", [pass_at_k_training_advantage, pkpo_advantage])
def test_groups_are_told_apart_and_invalid_rewards_do_not_count(function):
    more = () if function is pass_at_k_training_advantage else (None,)
    reward = torch.tensor([1.0, 0, 9, 0.5, 0, 0, 1, 0, 3, 2], dtype=torch.float64)
    group = torch.tensor([4, 4, 4, 1, 4, 4, 1, 1, 8, 8])
    valid = torch.tensor([1, 1, 0, 1, 1, 1, 1, 1, 1, 0]).bool()

    got = function(reward, group, valid, 3, *more)

    first = one_group(function, [1.0, 0.0, 0.0, 0.0], 3, *more)
    second = one_group(function, [0.5, 1.0, 0.0], 3, *more)
    assert got[[0, 1, 4, 5]].tolist() == first
    assert got[[3, 6, 7]].tolist() == second
    # Not valid, and a group with one valid answer of the three that are drawn.
    assert got[[2, 8, 9]].tolist() == [0, 0, 0]


def test_subsets_that_all_hold_a_right_answer_teach_nothing():
    assert one_group(pass_at_k_training_advantage, [1.0, 1.0, 0.0, 1.0], 2) == [0, 0, 0, 0]
    assert one_group(pass_at_k_training_advantage, [0.1, 0.1, 0.0, 0.1], 3) == [0, 0, 0, 0]


def test_a_spread_that_is_rounding_of_the_largest_reward_teaches_nothing():
    # Of two answers the best is 1e6, or .005 more: a standard deviation of .0024, below 1e-8 of it.
    rewards = [0.0, 1e6, 1e6 + 0.005]

    assert one_group(pass_at_k_training_advantage, rewards, 2) == [0, 0, 0]
    assert one_group(pass_at_k_training_advantage, [0.0, 1.0, 1.005], 2) != [0, 0, 0]

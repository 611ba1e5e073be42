from itertools import combinations
from math import comb, log
from statistics import mean, pstdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ShapeError
from rlcomp.functional.best_of import (
    best_of_k,
    best_of_n,
    best_of_n_kl,
    group_best_of_k,
    pass_at_k_training_advantage,
    pkpo_advantage,
)
from rlcomp.functional.pass_at_k import pass_at_k

# Ties are what goes wrong: few values.
rewards = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 1.0]), min_size=2, max_size=7)
sized_rewards = rewards.flatmap(
    lambda values: st.tuples(st.just(values), st.integers(2, len(values)))
)


def one_group(function, values, *arguments):
    reward = torch.tensor(values, dtype=torch.float64)
    group, valid = torch.full((len(values),), 7), torch.ones(len(values)).bool()
    return function(reward, group, valid, *arguments).tolist()


def subsets(values, k):
    return list(combinations(range(len(values)), k))


@given(sized_rewards)
def test_best_of_k_is_the_mean_over_all_subsets(case):
    values, k = case

    expected = mean(max(values[i] for i in subset) for subset in subsets(values, k))

    assert best_of_k(torch.tensor(values).double(), k).item() == pytest.approx(expected, abs=1e-12)
    assert one_group(group_best_of_k, values, k) == pytest.approx([expected] * len(values))


@pytest.mark.parametrize(("n", "c", "k"), [(10, 3, 2), (16, 1, 8), (7, 6, 2), (5, 0, 5)])
def test_best_of_k_of_binary_rewards_is_pass_at_k(n, c, k):
    values = torch.tensor([1.0] * c + [0.0] * (n - c), dtype=torch.float64)

    expected = pass_at_k(torch.tensor([n]), torch.tensor([c]), k).item()

    assert best_of_k(values, k).item() == pytest.approx(expected)


@given(sized_rewards)
def test_pkpo_is_the_gain_over_subsets_without_the_answer(case):
    values, k = case

    expected = [0.0] * len(values)
    for subset in subsets(values, k):
        for i in subset:
            others = max(values[j] for j in subset if j != i)
            expected[i] += max(0.0, values[i] - others) / comb(len(values), k)

    result = one_group(pkpo_advantage, values, k, None)
    assert result == pytest.approx(expected, abs=1e-12)
    # Exactly 0 is no signal; a residue would be one, and count as one.
    assert [value == 0 for value in result] == [value == 0 for value in expected]


def test_pkpo_by_hand():
    # n = 5, k = 3, R = 0 2 1 2 5, sorted 0 1 2 2 5; weights C(j, 1) / 10 of the j-th from below,
    # 0 1/10 2/10 3/10: of 5 it is 4/10 + 6/10 + 9/10, of each 2 (2 - 1) / 10.
    result = one_group(pkpo_advantage, [0.0, 2.0, 1.0, 2.0, 5.0], 3, None)

    assert result == pytest.approx([0, 0.1, 0, 0.1, 1.9])


@given(sized_rewards)
def test_pass_at_k_training_averages_the_advantages_of_the_subsets(case):
    values, k = case

    best = {subset: max(values[i] for i in subset) for subset in subsets(values, k)}
    centre, spread = mean(best.values()), pstdev(best.values())
    own = [mean(b for subset, b in best.items() if i in subset) for i in range(len(values))]
    expected = [(value - centre) / spread if spread else 0.0 for value in own]

    result = one_group(pass_at_k_training_advantage, values, k)
    assert result == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(8, 2, 4), (6, 1, 3), (5, 3, 2)])
def test_pass_at_k_training_has_the_paper_s_closed_form(n, c, k):
    # Of c right and n - c wrong answers.
    share = 1 - comb(n - c, k) / comb(n, k)
    spread = (share * (1 - share)) ** 0.5
    right = (1 - share) / spread
    wrong = (1 - share - comb(n - c - 1, k - 1) / comb(n - 1, k - 1)) / spread

    result = one_group(pass_at_k_training_advantage, [1.0] * c + [0.0] * (n - c), k)

    assert result == pytest.approx([right] * c + [wrong] * (n - c))


@pytest.mark.parametrize("function", [pass_at_k_training_advantage, pkpo_advantage])
def test_best_of_k_is_per_group_over_valid_rewards(function):
    more = () if function is pass_at_k_training_advantage else (None,)
    reward = torch.tensor([1.0, 0, 9, 0.5, 0, 0, 1, 0, 3, 2], dtype=torch.float64)
    group = torch.tensor([4, 4, 4, 1, 4, 4, 1, 1, 8, 8])
    valid = torch.tensor([1, 1, 0, 1, 1, 1, 1, 1, 1, 0]).bool()

    result = function(reward, group, valid, 3, *more)

    first = one_group(function, [1.0, 0.0, 0.0, 0.0], 3, *more)
    second = one_group(function, [0.5, 1.0, 0.0], 3, *more)
    assert result[[0, 1, 4, 5]].tolist() == first
    assert result[[3, 6, 7]].tolist() == second
    # Not valid, and a group with one valid answer of the three that are drawn.
    assert result[[2, 8, 9]].tolist() == [0, 0, 0]


def test_subsets_with_one_best_have_advantage_0():
    assert one_group(pass_at_k_training_advantage, [1.0, 1.0, 0.0, 1.0], 2) == [0, 0, 0, 0]
    assert one_group(pass_at_k_training_advantage, [0.1, 0.1, 0.0, 0.1], 3) == [0, 0, 0, 0]


def test_a_spread_within_rounding_has_advantage_0():
    # Of two answers the best is 1e6, or .005 more: a standard deviation of .0024, below 1e-8 of it.
    rewards = [0.0, 1e6, 1e6 + 0.005]

    assert one_group(pass_at_k_training_advantage, rewards, 2) == [0, 0, 0]
    assert one_group(pass_at_k_training_advantage, [0.0, 1.0, 1.005], 2) != [0, 0, 0]


# Few proxies: ties are what goes wrong.
answers = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 1.0, 2.0, 2.0]), st.integers(-3, 3)),
    min_size=1,
    max_size=7,
)


sized_answers = answers.flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, len(rows))))


def selected(rows):
    """The mean value of those with the largest proxy."""
    best = max(proxy for proxy, _ in rows)
    return mean(value for proxy, value in rows if proxy == best)


def columns(rows):
    return [torch.tensor([column], dtype=torch.float64) for column in zip(*rows, strict=True)]


@given(sized_answers)
def test_best_of_n_is_the_mean_over_all_subsets_with_random_ties(case):
    rows, n = case
    # A tie inside the subset is broken among those of the subset, which on average over subsets
    # is the mean of the block.
    expected = mean(selected(subset) for subset in combinations(rows, n))

    assert best_of_n(*columns(rows), n).item() == pytest.approx(expected, abs=1e-12)


def test_best_of_n_by_hand():
    # N = 4, n = 2, weights C(i - 1, 1) / 6 = 0 1/6 2/6 3/6 in the order of the proxy. First
    # prompt: gold 4 3 2 1 in that order, 3/6 + 4/6 + 3/6 = 5/3. Second: 1 and then 6 with
    # proxies all equal is the mean 2 of 0 1 1 6.
    proxy = torch.tensor([[1.0, 4.0, 2.0, 3.0], [5.0, 5.0, 5.0, 5.0]])
    gold = torch.tensor([[4.0, 1.0, 3.0, 2.0], [0.0, 1.0, 1.0, 6.0]])

    torch.testing.assert_close(best_of_n(proxy, gold, 2), torch.tensor([5 / 3, 2.0]).double())


def test_best_of_1_is_the_mean_and_of_all_the_selected_answer():
    proxy, gold = torch.rand(2, 1, 300, generator=torch.Generator().manual_seed(0)).unbind(0)

    assert best_of_n(proxy, gold, 1).item() == pytest.approx(gold.double().mean().item())
    # C(300, 150) has 90 digits.
    assert best_of_n(proxy, proxy, 150).item() < proxy.max().item()
    assert best_of_n(proxy, gold, 300).item() == pytest.approx(gold[0, proxy[0].argmax()].item())


@pytest.mark.parametrize("n", [1, 2, 5, 128])
def test_best_of_n_kl_without_ties_is_the_formula(n):
    proxy = torch.randperm(200, generator=torch.Generator().manual_seed(1))[None].double()

    assert best_of_n_kl(proxy, n).item() == pytest.approx(log(n) - (n - 1) / n, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_best_of_n_kl_with_ties_is_the_kl_over_answers(n):
    # Answers a a b b b with proxies of their own, drawn with 2/5 and 3/5; b wins unless all are a.
    lost = 0.4**n
    expected = lost * log(lost / 0.4) + (1 - lost) * log((1 - lost) / 0.6)

    result = best_of_n_kl(torch.tensor([[1.0, 1.0, 3.0, 3.0, 3.0]]), n)

    assert result.item() == pytest.approx(expected, abs=1e-12)


@given(sized_answers)
def test_ties_never_raise_the_best_of_n_kl(case):
    rows, n = case
    result = best_of_n_kl(columns(rows)[0], n).item()

    assert -1e-12 <= result <= log(n) - (n - 1) / n + 1e-12


def test_best_of_n_with_different_shapes_raises():
    with pytest.raises(ShapeError, match=r"\[1, 2\] and \[1, 3\]"):
        best_of_n(torch.zeros(1, 2), torch.zeros(1, 3), 1)


@pytest.mark.parametrize("n", [0, 3])
def test_best_of_more_than_all_answers_raises(n):
    with pytest.raises(ShapeError, match=f"best of {n} of 2 answers"):
        best_of_n(torch.zeros(1, 2), torch.zeros(1, 2), n)

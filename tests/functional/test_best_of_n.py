"""Best-of-n against every subset, and its KL against the distribution that it samples."""

from itertools import combinations
from math import log
from statistics import mean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ShapeError
from rlcomp.functional.best_of import best_of_n, best_of_n_kl

# Few proxies: ties are what goes wrong.
answers = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 1.0, 2.0, 2.0]), st.integers(-3, 3)),
    min_size=1,
    max_size=7,
)
sized = answers.flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, len(rows))))


def selected(rows):
    """The mean value of those with the largest proxy."""
    best = max(proxy for proxy, _ in rows)
    return mean(value for proxy, value in rows if proxy == best)


def columns(rows):
    return [torch.tensor([column], dtype=torch.float64) for column in zip(*rows, strict=True)]


@given(sized)
def test_it_is_the_mean_over_all_subsets_with_ties_drawn_at_random(case):
    rows, n = case
    # A tie inside the subset is broken among those of the subset, which on average over subsets
    # is the mean of the block.
    want = mean(selected(subset) for subset in combinations(rows, n))

    assert best_of_n(*columns(rows), n).item() == pytest.approx(want, abs=1e-12)


def test_by_hand_and_prompts_apart():
    # N = 4, n = 2, weights C(i - 1, 1) / 6 = 0 1/6 2/6 3/6 in the order of the proxy. First
    # prompt: gold 4 3 2 1 in that order, 3/6 + 4/6 + 3/6 = 5/3. Second: 1 and then 6 with
    # proxies all equal is the mean 2 of 0 1 1 6.
    proxy = torch.tensor([[1.0, 4.0, 2.0, 3.0], [5.0, 5.0, 5.0, 5.0]])
    gold = torch.tensor([[4.0, 1.0, 3.0, 2.0], [0.0, 1.0, 1.0, 6.0]])

    torch.testing.assert_close(best_of_n(proxy, gold, 2), torch.tensor([5 / 3, 2.0]).double())


def test_one_is_the_mean_and_all_is_the_one_on_top():
    proxy, gold = torch.rand(2, 1, 300, generator=torch.Generator().manual_seed(0)).unbind(0)

    assert best_of_n(proxy, gold, 1).item() == pytest.approx(gold.double().mean().item())
    # C(300, 150) has 90 digits.
    assert best_of_n(proxy, proxy, 150).item() < proxy.max().item()
    assert best_of_n(proxy, gold, 300).item() == pytest.approx(gold[0, proxy[0].argmax()].item())


@pytest.mark.parametrize("n", [1, 2, 5, 128])
def test_without_ties_the_kl_is_that_of_the_formula(n):
    proxy = torch.randperm(200, generator=torch.Generator().manual_seed(1))[None].double()

    assert best_of_n_kl(proxy, n).item() == pytest.approx(log(n) - (n - 1) / n, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_with_ties_it_is_the_kl_of_the_distribution_over_answers(n):
    # Answers a a b b b with proxies of their own, drawn with 2/5 and 3/5; b wins unless all are a.
    lost = 0.4**n
    want = lost * log(lost / 0.4) + (1 - lost) * log((1 - lost) / 0.6)

    found = best_of_n_kl(torch.tensor([[1.0, 1.0, 3.0, 3.0, 3.0]]), n)

    assert found.item() == pytest.approx(want, abs=1e-12)


@given(sized)
def test_ties_only_take_away(case):
    rows, n = case
    found = best_of_n_kl(columns(rows)[0], n).item()

    assert -1e-12 <= found <= log(n) - (n - 1) / n + 1e-12


def test_shapes_that_differ_are_refused():
    with pytest.raises(ShapeError, match=r"\[1, 2\] and \[1, 3\]"):
        best_of_n(torch.zeros(1, 2), torch.zeros(1, 3), 1)


@pytest.mark.parametrize("n", [0, 3])
def test_more_answers_than_there_are_cannot_be_selected_from(n):
    with pytest.raises(ShapeError, match=f"best of {n} of 2 answers"):
        best_of_n(torch.zeros(1, 2), torch.zeros(1, 2), n)

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcomp.functional.logprob import by_rows, entropy, token_log_probs
from rlcomp.generation.sampling import Sampling, sampling_log_probs

FILTERED = Sampling(temperature=0.7, top_k=4, top_p=0.9, min_p=0.05)


def test_log_prob_is_that_of_the_tempered_distribution():
    # Logits (0, ln 3) at temperature 1/2 are (0, ln 9): probabilities 1/10 and 9/10.
    logits = torch.tensor([[0.0, math.log(3.0)]])

    value = token_log_probs(logits, torch.tensor([1]), Sampling(temperature=0.5))

    assert value.item() == pytest.approx(math.log(0.9), abs=1e-6)


def test_log_prob_is_renormalised_over_the_kept_tokens():
    # Of 0.5, 0.3, 0.2 the two likeliest stay: 0.3 / 0.8.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()

    value = token_log_probs(logits, torch.tensor([1]), Sampling(top_k=2))

    assert value.item() == pytest.approx(math.log(0.375), abs=1e-6)


def test_taken_token_outside_the_filter_is_kept():
    # 0.2 would be dropped; with it all three stay.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()

    value = token_log_probs(logits, torch.tensor([2]), Sampling(top_k=2))

    assert value.item() == pytest.approx(math.log(0.2), abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_log_prob_is_finite_for_every_token(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 10 * torch.randn(20, 9, generator=generator)
    tokens = torch.randint(9, (20,), generator=generator)

    assert token_log_probs(logits, tokens, FILTERED).isfinite().all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_log_prob_of_a_token_that_can_be_drawn_is_the_samplers(seed):
    logits = 3 * torch.randn(20, 9, generator=torch.Generator().manual_seed(seed))
    scores = sampling_log_probs(logits, FILTERED)

    for token in range(9):
        possible = scores[:, token].isfinite()
        values = token_log_probs(logits, torch.full((20,), token), FILTERED)
        torch.testing.assert_close(values[possible], scores[possible, token])


def test_greedy_log_prob_is_zero():
    value = token_log_probs(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), Sampling(temperature=0))

    assert value.tolist() == [0.0]


def test_gradient_is_one_hot_minus_probabilities_over_the_temperature():
    # d/dz of (z_a - logsumexp z) / T with probabilities (1/4, 3/4) and T = 2.
    logits = (2 * torch.tensor([[0.25, 0.75]]).log()).requires_grad_()

    token_log_probs(logits, torch.tensor([0]), Sampling(temperature=2.0)).sum().backward()

    torch.testing.assert_close(logits.grad, torch.tensor([[0.375, -0.375]]))


def test_dropped_tokens_get_no_gradient():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log().requires_grad_()

    token_log_probs(logits, torch.tensor([0]), Sampling(top_k=2)).sum().backward()

    assert logits.grad[0, 2] == 0


def test_entropy_of_a_known_distribution():
    # H(1/2, 1/4, 1/4) = 1.5 bits.
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()

    assert entropy(logits, 1.0).item() == pytest.approx(1.5 * math.log(2), abs=1e-6)


def test_entropy_at_a_temperature():
    # Logits (0, ln 9) at temperature 2 are (0, ln 3): probabilities 1/4 and 3/4.
    logits = torch.tensor([[0.0, math.log(9.0)]])

    expected = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    assert entropy(logits, 2.0).item() == pytest.approx(expected, abs=1e-6)


def test_entropy_of_a_greedy_policy_is_zero():
    assert entropy(torch.tensor([[1.0, 2.0]]), 0.0).tolist() == [0.0]


def test_entropy_and_its_gradient_survive_impossible_tokens():
    logits = torch.tensor([[0.0, 0.0, -torch.inf]], requires_grad=True)

    value = entropy(logits, 1.0)
    value.sum().backward()

    assert value.item() == pytest.approx(math.log(2), abs=1e-6)
    torch.testing.assert_close(logits.grad, torch.zeros(1, 3))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(-50, 50))
def test_entropy_ignores_a_shift_of_the_logits(seed, shift):
    logits = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    torch.testing.assert_close(entropy(logits + shift, 0.8), entropy(logits, 0.8))


def test_half_precision_is_scored_in_float32():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).half()
    tokens = torch.tensor([0, 1, 2])

    assert token_log_probs(logits, tokens, Sampling()).dtype == torch.float32
    assert entropy(logits, 1.0).dtype == torch.float32


def test_a_barred_token_has_no_share():
    # Of 0.5, 0.3, 0.2 the first cannot be drawn: 0.3 / 0.5.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    barred = torch.tensor([True, False, False])

    value = token_log_probs(logits, torch.tensor([1]), Sampling(), barred)

    assert value.item() == pytest.approx(math.log(0.6), abs=1e-6)
    # Entropy of (0.6, 0.4).
    expected = -0.6 * math.log(0.6) - 0.4 * math.log(0.4)
    assert entropy(logits, 1.0, barred).item() == pytest.approx(expected, abs=1e-6)


def test_a_barred_token_that_was_taken_counts_for_itself():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    barred = torch.tensor([True, False, True])

    value = token_log_probs(logits, torch.tensor([0]), Sampling(), barred)

    assert value.item() == pytest.approx(math.log(0.5 / 0.8), abs=1e-6)


def test_filters_act_on_what_is_not_barred():
    # Without 0.5 the likeliest is 0.3, and top-1 keeps it alone.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    barred = torch.tensor([True, False, False])

    value = token_log_probs(logits, torch.tensor([1]), Sampling(top_k=1), barred)

    assert value.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("sampling", [Sampling(), FILTERED])
def test_many_rows_at_a_time_give_what_all_at_once_give(sampling, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(30, 9, generator=generator)
    rows = torch.randperm(30, generator=generator)[:17]
    tokens = torch.randint(9, (17,), generator=generator)
    weights = torch.randn(2, 17, generator=generator)

    def loss(matrix):
        taken = by_rows(lambda m, some: token_log_probs(m, tokens[some], sampling), matrix, rows)
        spread = by_rows(lambda m, _: entropy(m, 0.7), matrix, rows)
        return taken, spread, (weights[0] * taken + weights[1] * spread).sum()

    once, parts = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    taken, spread, total = loss(once)
    total.backward()
    # 4 rows of 9 at a time: 17 rows in 5 parts.
    monkeypatch.setattr("rlcomp.functional.logprob._TOGETHER", 36)
    taken_parts, spread_parts, total_parts = loss(parts)
    total_parts.backward()

    assert torch.equal(taken_parts, taken)
    assert torch.equal(spread_parts, spread)
    torch.testing.assert_close(parts.grad, once.grad, atol=1e-6, rtol=1e-5)
    assert not parts.grad[[row for row in range(30) if row not in rows.tolist()]].any()

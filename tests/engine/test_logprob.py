import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcomp.engine.decoding import Decoding, pack_mask, sampling_log_probs
from rlcomp.engine.logprob import (
    entropy,
    log_distribution,
    squared_probs,
    token_log_probs,
    token_log_probs_gradient,
)

FILTERED = Decoding(temperature=0.7, top_k=4, top_p=0.9, min_p=0.05)


def test_log_prob_at_a_temperature():
    # Logits (0, ln 3) at temperature 1/2 are (0, ln 9): probabilities 1/10 and 9/10.
    logits = torch.tensor([[0.0, math.log(3.0)]])

    value = token_log_probs(logits, torch.tensor([1]), Decoding(temperature=0.5))

    assert value.item() == pytest.approx(math.log(0.9), abs=1e-6)


def test_log_prob_is_renormalised_over_the_mask():
    # Top-2 of 0.5, 0.3, 0.2: 0.3 / 0.8.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()

    value = token_log_probs(logits, torch.tensor([1]), Decoding(top_k=2))

    assert value.item() == pytest.approx(math.log(0.375), abs=1e-6)


def test_a_sampled_token_outside_the_filters_is_added_to_the_mask():
    # The filter drops 0.2; the sampled token is added.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()

    value = token_log_probs(logits, torch.tensor([2]), Decoding(top_k=2))

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
def test_log_prob_of_an_allowed_token_agrees_with_the_sampler(seed):
    logits = 3 * torch.randn(20, 9, generator=torch.Generator().manual_seed(seed))
    scores = sampling_log_probs(logits, FILTERED)

    for token in range(9):
        possible = scores[:, token].isfinite()
        values = token_log_probs(logits, torch.full((20,), token), FILTERED)
        torch.testing.assert_close(values[possible], scores[possible, token])


def test_greedy_log_prob_is_zero():
    value = token_log_probs(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), Decoding(temperature=0))

    assert value.tolist() == [0.0]


def test_gradient_is_one_hot_minus_probabilities_over_the_temperature():
    # d/dz of (z_a - logsumexp z) / T with probabilities (1/4, 3/4) and T = 2.
    logits = (2 * torch.tensor([[0.25, 0.75]]).log()).requires_grad_()

    token_log_probs(logits, torch.tensor([0]), Decoding(temperature=2.0)).sum().backward()

    torch.testing.assert_close(logits.grad, torch.tensor([[0.375, -0.375]]))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    decoding=st.sampled_from([Decoding(), Decoding(temperature=0.4), FILTERED]),
    barring=st.booleans(),
    recording=st.booleans(),
)
def test_closed_form_gradient_agrees_with_autograd(seed, decoding, barring, recording):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(7, 9, generator=generator, dtype=torch.float64)
    gradient = torch.randn(7, generator=generator, dtype=torch.float64)
    tokens = torch.randint(9, (7,), generator=generator)
    suppressed = torch.arange(9) < 2 if barring else None
    allowed = (torch.arange(9) % 2 == 0).repeat(7, 1).scatter(1, tokens[:, None], True)
    recorded = pack_mask(allowed) if recording else None

    slope = token_log_probs_gradient(gradient, logits, tokens, decoding, suppressed, recorded)

    value = token_log_probs(logits.requires_grad_(), tokens, decoding, suppressed, recorded)
    torch.testing.assert_close(slope, torch.autograd.grad(value, logits, gradient)[0])


def test_closed_form_gradient_by_hand():
    # Probabilities (1/4, 3/4) at T = 2, a gradient of 2: 2 / 2 * (1 - 1/4, -3/4).
    logits = 2 * torch.tensor([[0.25, 0.75]]).log()

    slope = token_log_probs_gradient(
        torch.tensor([2.0]), logits, torch.tensor([0]), Decoding(temperature=2.0)
    )

    torch.testing.assert_close(slope, torch.tensor([[0.75, -0.75]]))


def test_masked_tokens_get_no_gradient():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log().requires_grad_()

    token_log_probs(logits, torch.tensor([0]), Decoding(top_k=2)).sum().backward()

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
    (100 * value).sum().backward()

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

    assert token_log_probs(logits, tokens, Decoding()).dtype == torch.float32
    assert entropy(logits, 1.0).dtype == torch.float32


def test_a_suppressed_token_has_probability_zero():
    # Of 0.5, 0.3, 0.2 the first cannot be drawn: 0.3 / 0.5.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    suppressed = torch.tensor([True, False, False])

    value = token_log_probs(logits, torch.tensor([1]), Decoding(), suppressed)

    assert value.item() == pytest.approx(math.log(0.6), abs=1e-6)
    # Entropy of (0.6, 0.4).
    expected = -0.6 * math.log(0.6) - 0.4 * math.log(0.4)
    assert entropy(logits, 1.0, suppressed).item() == pytest.approx(expected, abs=1e-6)


def test_a_sampled_suppressed_token_has_a_finite_log_prob():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    suppressed = torch.tensor([True, False, True])

    value = token_log_probs(logits, torch.tensor([0]), Decoding(), suppressed)

    assert value.item() == pytest.approx(math.log(0.5 / 0.8), abs=1e-6)


def test_filters_apply_to_tokens_that_are_not_suppressed():
    # Without 0.5 the likeliest is 0.3, and top-1 keeps it alone.
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    suppressed = torch.tensor([True, False, False])

    value = token_log_probs(logits, torch.tensor([1]), Decoding(top_k=1), suppressed)

    assert value.item() == pytest.approx(0.0, abs=1e-6)


LEAST = torch.finfo(torch.float32).min


@pytest.mark.parametrize(
    ("temperature", "suppressed", "expected"),
    [
        (1.0, None, [0.5, 0.25, 0.25]),
        # Logits times two: squares, 4 : 1 : 1.
        (0.5, None, [4 / 6, 1 / 6, 1 / 6]),
        (1.0, [True, False, False], [0.0, 0.5, 0.5]),
        (0.0, None, [1.0, 0.0, 0.0]),
        # The other two are equal.
        (0.0, [True, False, False], [0.0, 0.5, 0.5]),
    ],
)
def test_log_distribution_is_finite_at_suppressed_tokens(temperature, suppressed, expected):
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    barred = None if suppressed is None else torch.tensor(suppressed)

    actual = log_distribution(logits, temperature, barred)[0]

    torch.testing.assert_close(actual.exp(), torch.tensor(expected))
    assert actual[torch.tensor(expected) == 0].eq(LEAST).all()
    # The difference of two such distributions is 0 there, not NaN.
    assert (actual - actual).eq(0).all()


def test_squared_probs_of_the_decoding_distribution():
    logits, taken = torch.tensor([[0.5, 0.25, 0.25]]).log(), torch.tensor([1])
    barred = torch.tensor([True, False, False])

    def found(decoding, suppressed=None):
        return squared_probs(logits, taken, decoding, suppressed).tolist()

    assert found(Decoding()) == pytest.approx([0.25 + 2 / 16])
    assert found(Decoding(), barred) == pytest.approx([0.5])
    assert found(Decoding(top_k=1)) == pytest.approx([4 / 9 + 1 / 9])  # with the sampled token
    assert found(Decoding(temperature=0.5)) == pytest.approx([16 / 36 + 2 / 36])
    assert found(Decoding(temperature=0.0)) == [1.0]

"""Entropy of the likeliest next tokens."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.divergence import top_entropy

PROBS = torch.tensor([0.2, 0.4, 0.1, 0.3], dtype=torch.float64)


@pytest.mark.parametrize(
    ("k", "renormalise", "entropy"),
    [
        # -(.4 ln .4 + .3 ln .3 + .2 ln .2 + .1 ln .1); the four sum to 1, so nothing changes.
        (4, False, 1.27985423),
        (4, True, 1.27985423),
        (16, False, 1.27985423),
        # -(.4 ln .4 + .3 ln .3)
        (2, False, 0.72770813),
        # -(4/7 ln 4/7 + 3/7 ln 3/7)
        (2, True, 0.68290810),
        (1, True, 0.0),
    ],
)
def test_the_worked_numbers(k, renormalise, entropy):
    assert top_entropy(PROBS.log(), k, renormalise).item() == pytest.approx(entropy, abs=1e-8)


def test_a_constant_on_the_logits_changes_nothing():
    logits = PROBS.log().float() + torch.tensor([[0.0], [30.0]])

    first, second = top_entropy(logits, 2, renormalise=False).tolist()

    assert first == pytest.approx(0.72770813, abs=1e-6)
    assert second == pytest.approx(first, abs=1e-5)  # float32 at 30 holds 6 digits


def test_impossible_tokens_count_nothing():
    logits = torch.tensor([0.0, -torch.inf, 0.0, -torch.inf])

    assert top_entropy(logits, 3, renormalise=True).item() == pytest.approx(math.log(2))


def test_half_precision_is_summed_in_float32():
    logits = torch.zeros(1000, dtype=torch.bfloat16)

    entropy = top_entropy(logits, 1000, renormalise=True)

    assert entropy.dtype == torch.float32
    assert entropy.item() == pytest.approx(math.log(1000), rel=1e-5)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=8), st.integers(1, 10))
def test_it_lies_between_0_and_the_logarithm_of_the_count(logits, k):
    entropy = top_entropy(torch.tensor(logits, dtype=torch.float64), k, renormalise=True).item()

    assert -1e-9 <= entropy <= math.log(min(k, len(logits))) + 1e-9

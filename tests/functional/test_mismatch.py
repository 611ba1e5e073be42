import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.ratio import effective_sample_size, sampler_kl

LOGS = st.lists(st.floats(-5, 5), min_size=1, max_size=6)


def test_weights_by_hand():
    # (4 + 1 + 1)^2 / (3 (16 + 1 + 1)) = 36 / 54.
    log_weight = torch.tensor([4.0, 1.0, 1.0], dtype=torch.float64).log()

    assert effective_sample_size(log_weight).item() == pytest.approx(2 / 3)


def test_one_weight_that_outweighs_all_others_counts_alone_and_nothing_overflows():
    assert effective_sample_size(torch.tensor([2000.0, 0.0, 0.0])).item() == pytest.approx(1 / 3)


def test_no_weight_is_a_whole_sample():
    assert effective_sample_size(torch.zeros(0)).item() == 1.0


@given(LOGS, st.floats(-50, 50))
def test_a_common_factor_changes_nothing_and_it_is_between_one_and_all(logs, shift):
    log_weight = torch.tensor(logs, dtype=torch.float64)

    size = effective_sample_size(log_weight).item()

    assert 1 / len(logs) - 1e-9 <= size <= 1 + 1e-9
    assert effective_sample_size(log_weight + shift).item() == pytest.approx(size)


def test_k3_is_the_kl_in_the_mean_and_never_negative():
    # Sampler (3/4, 1/4), trainer (1/2, 1/2): KL = 3/4 log(3/2) + 1/4 log(1/2).
    sampler, trainer = torch.tensor([0.75, 0.25]), torch.tensor([0.5, 0.5])
    terms = sampler_kl((trainer / sampler).log())

    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert float((sampler.double() * terms).sum()) == pytest.approx(expected, abs=1e-7)
    assert bool((sampler_kl(torch.linspace(-5, 5, 101)) >= 0).all())
    assert terms.dtype == torch.float64

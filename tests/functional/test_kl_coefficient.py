import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.functional.kl_coefficient import (
    adaptive_entropy_coef,
    adaptive_kl_coef,
    doubling_kl_coef,
    interpolate,
    mean_kl,
)

NAN = float("nan")


def adapted(kl, *, kl_coef=0.2, num_sequences=256, target=6.0, horizon=10000.0):
    return adaptive_kl_coef(
        kl_coef, kl, target=target, horizon=horizon, num_sequences=num_sequences
    )


@pytest.mark.parametrize(
    ("kl", "coef"),
    [
        (9.0, 0.201024),  # 50 % over: clipped to 20 %, 0.2 * (1 + 0.2 * 0.0256)
        (6.1, 0.2000853),  # 1 / 60 over: 0.2 * (1 + 0.0166667 * 0.0256)
        (4.8, 0.198976),  # 20 % under
        (1e-3, 0.198976),
        (0.0, 0.2),  # the policy is the reference
        (6.0, 0.2),
    ],
)
def test_the_adaptive_coefficient_by_hand(kl, coef):
    assert adapted(kl) == pytest.approx(coef, abs=5e-8)


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 10**6))
def test_the_adaptive_coefficient_is_monotone_and_bounded(low, high, num_sequences):
    low, high = sorted((low + 1e-3, high + 1e-3))  # below, the policy is the reference

    under, over = (adapted(kl, num_sequences=num_sequences) for kl in (low, high))

    assert 0.2 * 0.8 - 1e-12 <= under <= over <= 0.2 * 1.2 + 1e-12


@pytest.mark.parametrize("kl", [NAN, math.inf])
def test_a_kl_that_is_no_number_moves_nothing(kl):
    assert adapted(kl) == 0.2
    assert doubling_kl_coef(0.2, kl, target=0.01) == 0.2


@pytest.mark.parametrize("kl", [0.0, 1e-12, 3e-8, -3e-8])
def test_the_rounding_of_equal_policies_is_no_kl(kl):
    # 3e-8 nats per token were measured in float32 between a policy and its copy.
    assert adapted(kl) == adapted(kl, target=0.01) == 0.2
    assert doubling_kl_coef(0.2, kl, target=0.01) == 0.2


def test_a_ten_thousandth_of_the_target_is_a_kl():
    # 20 % under at most: 0.2 * (1 - 0.2 * 0.0256).
    assert adapted(1e-4, target=1.0) == pytest.approx(0.198976, abs=5e-8)
    assert adapted(0.99e-4, target=1.0) == 0.2


@given(st.floats(1e-3, 10), st.floats(1e-3, 10), st.floats(1e-3, 1))
def test_more_kl_never_means_a_lower_doubled_coefficient(a, b, target):
    low, high = (doubling_kl_coef(1.0, kl, target=target) for kl in sorted((a, b)))

    assert 0.5 <= low <= high <= 2.0


@pytest.mark.parametrize(
    ("kl", "coef"), [(0.0151, 2.0), (0.0149, 1.0), (0.0067, 1.0), (0.0066, 0.5), (-0.01, 0.5)]
)
def test_beyond_half_as_much_again_the_coefficient_is_doubled_or_halved(kl, coef):
    assert doubling_kl_coef(1.0, kl, target=0.01) == coef


def test_a_coefficient_that_was_halved_for_ever_comes_back():
    coef = 1.0
    for _ in range(2000):
        coef = doubling_kl_coef(coef, 1e-4, target=0.01)

    assert doubling_kl_coef(coef, 1.0, target=0.01) == pytest.approx(2 * coef)
    assert coef > 0
    assert doubling_kl_coef(1e8, 1.0, target=0.01) == 1e8


def test_the_mean_kl_per_token_and_per_response():
    # 1 + 3 over two tokens, 4 over one, an empty row that does not count.
    kl = torch.tensor([[1.0, 0.0, 3.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 0, 0]]).bool()

    assert mean_kl(kl, mask, "sequence") == 4.0
    assert mean_kl(kl, mask, "token") == 3.0
    assert math.isnan(mean_kl(kl[2:], mask[2:], "token"))


@pytest.mark.parametrize("shape", ["linear", "cosine"])
@given(first=st.floats(0, 2), second=st.floats(0, 2))
def test_the_way_between_is_monotone_and_ends_where_it_says(shape, first, second):
    first, second = sorted((first, second))

    assert interpolate(0.0, 1.0, first, shape) <= interpolate(0.0, 1.0, second, shape)
    assert interpolate(3.0, 5.0, 0.0, shape) == 3.0
    assert interpolate(3.0, 5.0, 1.0 + first, shape) == 5.0


def test_a_quarter_of_the_way_along_a_cosine():
    # (1 - cos(pi / 4)) / 2 = 0.1464466 of the way from 1 to 2.
    assert interpolate(1.0, 2.0, 0.25, "cosine") == pytest.approx(1.1464466, abs=1e-7)
    assert interpolate(1.0, 2.0, 0.25, "linear") == 1.25


@pytest.mark.parametrize(
    ("coef", "entropy", "moved"),
    [
        (0.01, 0.1, 0.015),  # below: up
        (0.01, 0.2, 0.015),  # at the target: up
        (0.01, 0.3, 0.005),  # above: down
        (0.999, 0.1, 1.0),
        (0.001, 0.3, 0.0),
        (0.01, NAN, 0.01),
    ],
)
def test_the_entropy_coefficient_goes_in_steps(coef, entropy, moved):
    result = adaptive_entropy_coef(coef, entropy, target=0.2, step=0.005, maximum=1.0)

    assert result == pytest.approx(moved, abs=1e-15)

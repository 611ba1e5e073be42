import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ShapeError
from rlcomp.functional.divergence import kl_estimate, kl_full, kl_ratio_estimate, top_entropy

NAN = float("nan")


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def all_estimates(values):
    return torch.ones_like(values, dtype=torch.bool)


# d = lp - ref = -0.2, 0.5, 0.5: k1 = d; k2 = d^2 / 2; k3 = e^-d - 1 + d.
BY_HAND = {
    "k1": (-0.2, 0.5, 0.5),
    "k2": (0.02, 0.125, 0.125),
    "k3": (0.0214028, 0.1065307, 0.1065307),
    "abs": (0.2, 0.5, 0.5),
    "k1_plus": (-0.2, 0.5, 0.5),
    "k3_plus": (0.0214028, 0.1065307, 0.1065307),
}


# With x = lp - old = 0.2, -0.5, 0 the ratio is 1.2214028, 0.6065307, 1.
RATIO_BY_HAND = {
    "k1_ratio": (-0.2442806, 0.3032653, 0.5),
    "k2_ratio": (0.0244281, 0.0758163, 0.125),
    "k3_ratio": (0.0261414, 0.0646141, 0.1065307),
}


@pytest.mark.parametrize("estimator", BY_HAND)
def test_kl_estimates_by_hand(estimator):
    log_probs, ref = row(-1, -2, -0.5), row(-0.8, -2.5, -1)

    kl = kl_estimate(log_probs, ref, all_estimates(ref), estimator)

    torch.testing.assert_close(kl, row(*BY_HAND[estimator]), atol=1e-7, rtol=0)


@pytest.mark.parametrize("estimator", RATIO_BY_HAND)
def test_kl_ratio_estimates_by_hand(estimator):
    log_probs, old, ref = row(-1, -2, -0.5), row(-1.2, -1.5, -0.5), row(-0.8, -2.5, -1)

    kl = kl_ratio_estimate(log_probs, old, ref, all_estimates(ref), estimator)

    torch.testing.assert_close(kl, row(*RATIO_BY_HAND[estimator]), atol=1e-7, rtol=0)


def policies():
    """Logits of a policy over 6 tokens, its log-probs, and those of a reference."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=draw, dtype=torch.float64, requires_grad=True)
    ref = torch.randn(6, generator=draw, dtype=torch.float64).log_softmax(0)
    return logits, logits.log_softmax(0), ref


def expectation(estimator, log_probs, ref):
    """E over the policy of the estimate, by enumeration; no gradient through the sampling."""
    kl = kl_estimate(log_probs[None, :], ref[None, :], all_estimates(ref[None, :]), estimator)[0]
    return (log_probs.detach().exp() * kl).sum()


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_estimate_the_kl_without_bias(estimator):
    _, log_probs, ref = policies()

    exact = (log_probs.exp() * (log_probs - ref)).sum()

    assert expectation(estimator, log_probs, ref).item() == pytest.approx(exact.item(), abs=1e-15)


REVERSE = ("k2", "k1_plus", "k3_plus")


@pytest.mark.parametrize("estimator", ["k1", "k3", *REVERSE])
def test_expected_gradients_of_the_estimators(estimator):
    logits, log_probs, ref = policies()
    exact = {
        "k1": 0 * logits.sum(),
        "k3": (ref.exp() * (ref - log_probs)).sum(),  # forward: KL(reference || policy)
    } | dict.fromkeys(REVERSE, (log_probs.exp() * (log_probs - ref)).sum())

    (expected,) = torch.autograd.grad(exact[estimator], logits, retain_graph=True)
    (gradient,) = torch.autograd.grad(expectation(estimator, log_probs, ref), logits)

    torch.testing.assert_close(gradient, expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("drift", [0.0, 0.5])
@pytest.mark.parametrize("estimator", RATIO_BY_HAND)
def test_ratio_estimators_have_the_kl_gradient_off_policy(estimator, drift):
    logits, log_probs, ref = policies()
    old = (logits.detach() + drift * torch.arange(6.0)).log_softmax(0)
    exact = (log_probs.exp() * (log_probs - ref)).sum()

    rows = (values[None, :] for values in (log_probs, old, ref))
    kl = kl_ratio_estimate(*rows, all_estimates(ref[None, :]), estimator)[0]
    (expected,) = torch.autograd.grad(exact, logits, retain_graph=True)
    (gradient,) = torch.autograd.grad((old.exp() * kl).sum(), logits)

    torch.testing.assert_close(gradient, expected, atol=1e-15, rtol=0)


@pytest.mark.parametrize("estimator", ["k1_ratio", "k3_ratio"])
def test_ratio_estimators_have_the_kl_value_off_policy(estimator):
    _, log_probs, ref = policies()
    old = (log_probs.detach() + 0.5 * torch.arange(6.0)).log_softmax(0)
    rows = (values[None, :] for values in (log_probs, old, ref))

    kl = kl_ratio_estimate(*rows, all_estimates(ref[None, :]), estimator)[0]

    exact = (log_probs.exp() * (log_probs - ref)).sum()
    assert (old.exp() * kl).sum().item() == pytest.approx(exact.item(), abs=1e-15)


@given(st.floats(-10, 0), st.floats(-10, 0), st.floats(-10, 0))
def test_the_gradient_of_the_unbiased_estimate_is_the_ratio_times_d(log_prob, old, ref):
    leaf = row(log_prob).requires_grad_()

    kl_ratio_estimate(leaf, row(old), row(ref), all_estimates(leaf), "k3_ratio").backward()

    ratio = (row(log_prob) - row(old)).exp()
    torch.testing.assert_close(leaf.grad, ratio * (log_prob - ref), atol=1e-9, rtol=1e-9)


def test_the_ratio_has_a_gradient_on_policy():
    # rho = 1: the value is k3's, the gradient is d = 0.5 and not 1 - e^-0.5 = 0.393.
    leaf = row(-2.0).requires_grad_()

    kl = kl_ratio_estimate(leaf, row(-2.0), row(-2.5), all_estimates(leaf), "k3_ratio")
    kl.backward()

    assert kl.item() == pytest.approx(0.1065307, abs=1e-7)
    assert leaf.grad.item() == pytest.approx(0.5, abs=1e-12)


@given(st.integers(0, 2**31 - 1))
def test_the_kl_over_the_vocabulary_is_positive_and_0_outside_the_mask(seed):
    draw = torch.Generator().manual_seed(seed)
    policy, ref = (
        (3 * torch.randn(4, 5, 6, generator=draw, dtype=torch.float64)).log_softmax(-1)
        for _ in range(2)
    )
    mask = torch.rand(4, 5, generator=draw) < 0.6
    mask[0] = False
    policy[~mask] = NAN

    kl = kl_full(policy, ref, mask)

    assert bool((kl[mask] > 0).all())
    assert not kl[~mask].any()


@pytest.mark.parametrize("never", [-torch.inf, torch.finfo(torch.float64).min])
def test_an_impossible_token_adds_nothing_to_kl_full(never):
    policy, ref = (torch.tensor([[p]]).double().log() for p in ([0.5, 0.5], [0.25, 0.75]))
    last = torch.full((1, 1, 1), never, dtype=torch.float64)
    wider = torch.cat([policy, last], -1).requires_grad_()
    mask = torch.ones(1, 1, dtype=torch.bool)

    kl = kl_full(wider, torch.cat([ref, last], -1), mask)
    kl.sum().backward()

    # 0.5 log 2 + 0.5 log(2 / 3) = 0.1438410; the slope for log p is p (d + 1).
    assert kl.item() == pytest.approx(0.1438410, abs=1e-7)
    slope = torch.tensor([[[0.5 * 1.6931472, 0.5 * 0.5945349, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(wider.grad, slope, atol=1e-7, rtol=0)


def test_kl_full_of_different_vocabularies_raises():
    with pytest.raises(ShapeError, match=r"\[1, 1, 3\], 'ref_log_distribution' \[1, 1, 2\]"):
        kl_full(torch.zeros(1, 1, 3), torch.zeros(1, 1, 2), torch.ones(1, 1).bool())


def test_kl_of_float64_is_float64():
    # d = 1e-9: in float32 it would be 0 beside log-probs of -1.
    kl = kl_estimate(row(-1.0 + 1e-9), row(-1.0), all_estimates(row(0.0)), "k1")

    assert kl.item() == pytest.approx(1e-9, rel=1e-6)


@given(st.floats(-10, 0), st.floats(-10, 0))
def test_k2_and_k3_are_never_negative(log_prob, ref):
    for estimator in ("k2", "k3"):
        assert (
            kl_estimate(row(log_prob), row(ref), all_estimates(row(ref)), estimator).item()
            >= -1e-15
        )


@pytest.mark.parametrize("estimator", BY_HAND)
def test_equal_policies_have_kl_0(estimator):
    same = row(-1, -2, -0.5)

    assert kl_estimate(same, same, all_estimates(same), estimator).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("estimator", BY_HAND)
def test_kl_outside_the_mask_is_0_with_gradient_0(estimator):
    log_probs = row(-1, NAN).requires_grad_()

    kl = kl_estimate(log_probs, row(-1.5, NAN), torch.tensor([[True, False]]), estimator)
    kl.sum().backward()

    assert kl[0, 1].item() == 0.0
    assert log_probs.grad[0, 1].item() == 0.0


def test_no_gradient_reaches_the_reference():
    ref = row(-1.0).requires_grad_()

    assert not kl_estimate(row(-2.0), ref, all_estimates(ref), "k3").requires_grad


@pytest.mark.parametrize("estimator", BY_HAND)
def test_kl_of_a_vanishing_token_is_finite(estimator):
    lost = kl_estimate(row(-500.0), row(0.0), all_estimates(row(0.0)), estimator)

    assert bool(lost.isfinite().all())


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
def test_top_entropy_by_hand(k, renormalise, entropy):
    assert top_entropy(PROBS.log(), k, renormalise).item() == pytest.approx(entropy, abs=1e-8)


def test_top_entropy_ignores_a_constant_on_the_logits():
    logits = PROBS.log().float() + torch.tensor([[0.0], [30.0]])

    first, second = top_entropy(logits, 2, renormalise=False).tolist()

    assert first == pytest.approx(0.72770813, abs=1e-6)
    assert second == pytest.approx(first, abs=1e-5)  # float32 at 30 holds 6 digits


def test_top_entropy_ignores_impossible_tokens():
    logits = torch.tensor([0.0, -torch.inf, 0.0, -torch.inf])

    assert top_entropy(logits, 3, renormalise=True).item() == pytest.approx(math.log(2))


def test_top_entropy_of_half_precision_is_float32():
    logits = torch.zeros(1000, dtype=torch.bfloat16)

    entropy = top_entropy(logits, 1000, renormalise=True)

    assert entropy.dtype == torch.float32
    assert entropy.item() == pytest.approx(math.log(1000), rel=1e-5)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=8), st.integers(1, 10))
def test_top_entropy_is_between_0_and_log_k(logits, k):
    entropy = top_entropy(torch.tensor(logits, dtype=torch.float64), k, renormalise=True).item()

    assert -1e-9 <= entropy <= math.log(min(k, len(logits))) + 1e-9

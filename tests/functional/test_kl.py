import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from rlcomp.functional.kl import kl_estimate

GOLDEN = Path(__file__).parents[1] / "golden" / "policy" / "verl__kl_penalty.safetensors"
NAN = float("nan")


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def every(values):
    return torch.ones_like(values, dtype=torch.bool)


# d = lp - ref = -0.2, 0.5, 0.5: k1 = d; k2 = d^2 / 2; k3 = e^-d - 1 + d.
BY_HAND = {
    "k1": (-0.2, 0.5, 0.5),
    "k2": (0.02, 0.125, 0.125),
    "k3": (0.0214028, 0.1065307, 0.1065307),
}


@pytest.mark.parametrize("estimator", BY_HAND)
def test_three_tokens_by_hand(estimator):
    log_probs, ref = row(-1, -2, -0.5), row(-0.8, -2.5, -1)

    kl = kl_estimate(log_probs, ref, every(ref), estimator)

    torch.testing.assert_close(kl, row(*BY_HAND[estimator]), atol=1e-7, rtol=0)


def test_verl_s_values_and_gradients_are_reproduced():
    with safe_open(GOLDEN, "pt") as file:
        for case, arguments in json.loads(file.metadata()["cases"]).items():
            log_probs = file.get_tensor(f"{case}/in/logprob").requires_grad_()
            ref = file.get_tensor(f"{case}/in/ref_logprob")
            mask = file.get_tensor(f"{case}/in/mask").bool()

            kl = kl_estimate(log_probs, ref, mask, arguments["kl_penalty"])
            kl.sum().backward()

            torch.testing.assert_close(kl[mask], file.get_tensor(f"{case}/out/kl")[mask])
            torch.testing.assert_close(log_probs.grad, file.get_tensor(f"{case}/grad/logprob"))


def policies():
    """Logits of a policy over 6 tokens, its log-probs, and those of a reference."""
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=draw, dtype=torch.float64, requires_grad=True)
    ref = torch.randn(6, generator=draw, dtype=torch.float64).log_softmax(0)
    return logits, logits.log_softmax(0), ref


def expectation(estimator, log_probs, ref):
    """E over the policy of the estimate, by enumeration; no gradient through the sampling."""
    kl = kl_estimate(log_probs[None, :], ref[None, :], every(ref[None, :]), estimator)[0]
    return (log_probs.detach().exp() * kl).sum()


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_estimate_the_kl_without_bias(estimator):
    _, log_probs, ref = policies()

    exact = (log_probs.exp() * (log_probs - ref)).sum()

    assert expectation(estimator, log_probs, ref).item() == pytest.approx(exact.item(), abs=1e-15)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_what_each_estimator_descends_on_as_a_loss(estimator):
    logits, log_probs, ref = policies()
    exact = {
        "k1": 0 * logits.sum(),
        "k2": (log_probs.exp() * (log_probs - ref)).sum(),
        "k3": (ref.exp() * (ref - log_probs)).sum(),  # forward: KL(reference || policy)
    }[estimator]

    (wanted,) = torch.autograd.grad(exact, logits, retain_graph=True)
    (gradient,) = torch.autograd.grad(expectation(estimator, log_probs, ref), logits)

    torch.testing.assert_close(gradient, wanted, atol=1e-15, rtol=0)


@given(st.floats(-10, 0), st.floats(-10, 0))
def test_k2_and_k3_are_never_negative(log_prob, ref):
    for estimator in ("k2", "k3"):
        assert kl_estimate(row(log_prob), row(ref), every(row(ref)), estimator).item() >= -1e-15


@pytest.mark.parametrize("estimator", BY_HAND)
def test_equal_policies_have_kl_0(estimator):
    same = row(-1, -2, -0.5)

    assert kl_estimate(same, same, every(same), estimator).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("estimator", BY_HAND)
def test_outside_the_mask_it_is_0_with_gradient_0(estimator):
    log_probs = row(-1, NAN).requires_grad_()

    kl = kl_estimate(log_probs, row(-1.5, NAN), torch.tensor([[True, False]]), estimator)
    kl.sum().backward()

    assert kl[0, 1].item() == 0.0
    assert log_probs.grad[0, 1].item() == 0.0


def test_no_gradient_reaches_the_reference():
    ref = row(-1.0).requires_grad_()

    assert not kl_estimate(row(-2.0), ref, every(ref), "k3").requires_grad


@pytest.mark.parametrize("estimator", BY_HAND)
def test_a_token_the_policy_lost_stays_finite(estimator):
    lost = kl_estimate(row(-500.0), row(0.0), every(row(0.0)), estimator)

    assert bool(lost.isfinite().all())

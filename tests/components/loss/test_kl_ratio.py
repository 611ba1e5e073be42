import pytest
import torch
from tensordict import TensorDict

from components.kl_controller import FixedKL
from components.loss.kl import KLRatioLoss
from components.loss.reduction import TokenMean
from rlcomp.testing import make_batch


def loss(estimator: str = "k3_ratio", kl_coef: float = 0.1) -> KLRatioLoss:
    controller = FixedKL(kl_coef=kl_coef)
    return KLRatioLoss(controller=controller, estimator=estimator, reduction=TokenMean())


def batch() -> TensorDict:
    return make_batch(
        response_mask=[[True, True, True, False]],
        log_probs=torch.tensor([[-1.0, -2.0, -0.5, 7.0]], requires_grad=True),
        rollout_log_probs=[[-1.2, -1.5, -0.5, 0.0]],
        ref_log_probs=[[-0.8, -2.5, -1.0, 0.0]],
    )


# The ratios are 1.2214028, 0.6065307 and 1, d = -0.2, 0.5 and 0.5.
RHO_D = (-0.2442806, 0.3032653, 0.5)


@pytest.mark.parametrize(
    ("estimator", "kl", "slope"),
    [
        ("k3_ratio", 0.0261414 + 0.0646141 + 0.1065307, RHO_D),
        ("k1_ratio", sum(RHO_D), (0.9771222, 0.9097960, 1.5)),  # rho (d + 1)
        ("k2_ratio", 0.0244281 + 0.0758163 + 0.125, RHO_D),
    ],
)
def test_three_tokens_by_hand(estimator, kl, slope):
    rows = batch()

    value = loss(estimator)(rows)["loss"]
    value.backward()

    assert value.item() == pytest.approx(0.1 * kl / 3, abs=1e-7)
    gradient = torch.tensor([[*slope, 0.0]]) * 0.1 / 3
    torch.testing.assert_close(rows["log_probs"].grad, gradient, atol=1e-7, rtol=0)


def test_each_token_has_its_own_ratio_not_its_sequences():
    # With the ratio of the sequence a token would answer for the drift of the others.
    rows, drifted = batch(), batch()
    drifted["rollout_log_probs"] = drifted["rollout_log_probs"] - torch.tensor(
        [[1.0, 0.0, 0.0, 0.0]]
    )

    for one in (rows, drifted):
        loss()(one)["loss"].backward()

    slopes = rows["log_probs"].grad[0], drifted["log_probs"].grad[0]
    assert torch.equal(slopes[0][1:], slopes[1][1:])
    assert slopes[1][0].item() == pytest.approx(slopes[0][0].item() * torch.e, rel=1e-6)


def test_the_gradient_is_the_kls_for_any_sampler_and_any_proximal_policy():
    # Every token of a vocabulary of 6, as often as the sampler draws it.
    draw = torch.Generator().manual_seed(0)
    logits = [torch.randn(6, generator=draw, dtype=torch.float64) for _ in range(4)]
    policy = logits[0].requires_grad_()
    log_probs, old, sampler, ref = (scores.log_softmax(0) for scores in logits)
    rows = {
        "response_mask": torch.ones(6, 1, dtype=torch.bool),
        "log_probs": log_probs[:, None],
        "old_log_probs": old[:, None].detach(),
        "rollout_log_probs": sampler[:, None],
        "ref_log_probs": ref[:, None],
        "loss_weight": sampler[:, None].exp(),
    }

    value = loss(kl_coef=1.0)(TensorDict(rows, batch_size=[6]))["loss"]
    exact = (log_probs.exp() * (log_probs - ref)).sum()

    torch.testing.assert_close(value, exact)
    (gradient,) = torch.autograd.grad(value, policy, retain_graph=True)
    (wanted,) = torch.autograd.grad(exact, policy)
    torch.testing.assert_close(gradient, wanted, atol=1e-15, rtol=0)


def test_a_token_without_a_record_has_ratio_1():
    rows = batch()
    rows["rollout_log_probs"] = torch.full((1, 4), float("nan"))

    loss()(rows)["loss"].backward()

    # The gradient is rho d: d = -0.2, 0.5 and 0.5.
    slope = torch.tensor([[-0.2, 0.5, 0.5, 0.0]]) * 0.1 / 3
    torch.testing.assert_close(rows["log_probs"].grad, slope, atol=1e-7, rtol=0)

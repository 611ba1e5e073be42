import pytest
import torch
from tensordict import TensorDict

from components.kl_controller import AdaptiveKL, FixedKL
from components.loss.kl import KLLoss
from components.loss.reduction import TokenMean
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch() -> TensorDict:
    # d = log_probs - ref_log_probs = -0.2, 0.5 inside the mask.
    return make_batch(
        response_mask=[[True, True, False]],
        log_probs=torch.tensor([[-1.0, -2.0, 5.0]], requires_grad=True),
        ref_log_probs=[[-0.8, -2.5, 0.0]],
    )


def loss(kl_coef: float, estimator: str = "k3") -> KLLoss:
    controller = FixedKL(kl_coef=kl_coef)
    return KLLoss(controller=controller, estimator=estimator, reduction=TokenMean())


K1, K3 = -0.2 + 0.5, 0.0214028 + 0.1065307


@pytest.mark.parametrize(
    ("estimator", "kl", "slope"),
    [
        ("k1", K1, (1, 1)),
        ("k2", 0.02 + 0.125, (-0.2, 0.5)),
        ("k3", K3, (-0.2214028, 0.3934693)),  # 1 - e^-d
        ("abs", 0.2 + 0.5, (-1, 1)),
        ("k1_plus", K1, (-0.2, 0.5)),  # k2's
        ("k3_plus", K3, (-0.2, 0.5)),
    ],
)
def test_two_tokens_by_hand(estimator, kl, slope):
    rows = batch()

    value = loss(0.1, estimator)(rows)["loss"]
    value.backward()

    assert value.item() == pytest.approx(0.1 * kl / 2, abs=1e-6)
    gradient = torch.tensor([[0.05 * slope[0], 0.05 * slope[1], 0.0]])
    torch.testing.assert_close(rows["log_probs"].grad, gradient, atol=1e-6, rtol=0)


def test_padding_does_not_dilute_the_kl():
    # A mean over all positions would give half of it in a batch of half padding.
    rows = batch()[:, None].expand(1, 1).reshape(-1)
    padded = TensorDict(
        {key: torch.cat([rows[key], torch.zeros_like(rows[key])], 1) for key in rows.keys()},
        batch_size=[1],
    )

    assert loss(1.0)(padded)["loss"].item() == pytest.approx(K3 / 2, abs=1e-6)


def test_the_kl_is_recorded_in_nats_for_every_coefficient():
    with recording() as ledger:
        value = loss(0.0)(batch())["loss"]

    assert value.item() == 0.0
    assert ledger.means()["kl/in_loss"] == pytest.approx(K3 / 2, abs=1e-6)


def test_the_loss_charges_by_its_controller_and_does_not_move_it():
    controller = AdaptiveKL(kl_coef=0.1, target=1e-3, unit="token", horizon=1)
    kl_loss = KLLoss(controller=controller, estimator="k3", reduction=TokenMean())

    first, second = (kl_loss(batch())["loss"].item() for _ in range(2))
    controller.observe(1.0, 1)
    third = kl_loss(batch())["loss"].item()

    assert first == second
    assert third == pytest.approx(1.2 * first)


def test_an_unknown_estimator_is_refused():
    with pytest.raises(ConfigError, match="estimator is 'k4': must be one of 'k1', 'k2', 'k3'"):
        loss(0.1, "k4")

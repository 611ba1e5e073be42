import pytest
import torch
from tensordict import TensorDict

from components.loss.kl import KLLoss
from components.loss.reduction.token_mean import TokenMean
from rlcomp.errors import ConfigError
from rlcomp.run.record import recording


def batch() -> TensorDict:
    # d = log_probs - ref_log_probs = -0.2, 0.5 inside the mask.
    return TensorDict(
        {
            "response_mask": torch.tensor([[True, True, False]]),
            "log_probs": torch.tensor([[-1.0, -2.0, 5.0]], requires_grad=True),
            "ref_log_probs": torch.tensor([[-0.8, -2.5, 0.0]]),
        },
        batch_size=[1],
    )


def loss(kl_coef: float, estimator: str = "k3") -> KLLoss:
    return KLLoss(kl_coef=kl_coef, estimator=estimator, reduction=TokenMean())


@pytest.mark.parametrize(
    ("estimator", "kl", "slope"),
    [
        ("k1", (-0.2 + 0.5) / 2, (1, 1)),
        ("k2", (0.02 + 0.125) / 2, (-0.2, 0.5)),
        ("k3", (0.0214028 + 0.1065307) / 2, (-0.2214028, 0.3934693)),  # 1 - e^-d
    ],
)
def test_two_tokens_by_hand(estimator, kl, slope):
    rows = batch()

    value = loss(0.1, estimator)(rows)["loss"]
    value.backward()

    assert value.item() == pytest.approx(0.1 * kl, abs=1e-6)
    gradient = torch.tensor([[0.05 * slope[0], 0.05 * slope[1], 0.0]])
    torch.testing.assert_close(rows["log_probs"].grad, gradient, atol=1e-6, rtol=0)


def test_the_kl_is_recorded_in_nats_whatever_its_price():
    with recording() as ledger:
        value = loss(0.0)(batch())["loss"]

    assert value.item() == 0.0
    assert ledger.means()["kl/in_loss"] == pytest.approx((0.0214028 + 0.1065307) / 2, abs=1e-6)


def test_an_unknown_estimator_is_refused():
    with pytest.raises(ConfigError, match="estimator is 'k4': must be one of 'k1', 'k2', 'k3'"):
        loss(0.1, "k4")

import pytest
import torch
from tensordict import TensorDict

from components.kl_controller import FixedKL
from components.loss.kl import KLFullLoss
from components.loss.reduction import TokenMean
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def loss() -> KLFullLoss:
    return KLFullLoss(controller=FixedKL(kl_coef=0.1), reduction=TokenMean())


def batch(logits: torch.Tensor, ref: torch.Tensor) -> TensorDict:
    distributions = {
        "log_distribution": logits.log_softmax(-1),
        "ref_log_distribution": ref.log_softmax(-1),
    }
    mask = torch.tensor([[True, True, False]])
    return make_batch(response_mask=mask, **distributions)


def test_two_tokens_by_hand():
    # (1/2, 1/2) against (1/4, 3/4): 0.5 log 2 + 0.5 log(2 / 3) = 0.1438410; against itself 0.
    even, skewed = torch.zeros(1, 3, 2), torch.tensor([[[1.0, 3.0], [1.0, 1.0], [9.0, 1.0]]]).log()

    with recording() as ledger:
        value = loss()(batch(even, skewed))["loss"]

    assert value.item() == pytest.approx(0.1 * 0.1438410 / 2, abs=1e-7)
    assert ledger.means()["kl/in_loss"] == pytest.approx(0.1438410 / 2, abs=1e-6)


def test_the_gradient_is_that_of_the_kl():
    # d KL / d z_v = p_v (log p_v - log q_v - KL).
    draw = torch.Generator().manual_seed(0)
    logits, ref = (torch.randn(1, 3, 5, generator=draw, dtype=torch.float64) for _ in range(2))
    logits.requires_grad_()

    loss()(batch(logits, ref))["loss"].backward()

    log_p, log_q = logits.detach().log_softmax(-1), ref.log_softmax(-1)
    kl = (log_p.exp() * (log_p - log_q)).sum(-1, keepdim=True)
    wanted = 0.05 * log_p.exp() * (log_p - log_q - kl)
    wanted[:, 2] = 0
    torch.testing.assert_close(logits.grad, wanted)

"""No trust region, and SAPO's soft one."""

import pytest
import torch

from components.loss.trust_region.clip import NoTrustRegion
from components.loss.trust_region.smooth import SAPO
from rlcomp.errors import ConfigError
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    return make_batch(
        response_mask=[[True, True, False]],
        ratio=torch.tensor([[9.0, 0.5, NAN]], requires_grad=True),
        advantage=[[1.0, -1.0, NAN]],
    )


def test_without_a_trust_region_it_is_the_plain_product():
    rows = batch()

    surrogate = NoTrustRegion()(rows)["surrogate"]
    surrogate.sum().backward()

    assert surrogate.tolist() == [[9.0, -0.5, 0.0]]
    assert rows["ratio"].grad.tolist() == [[1.0, -1.0, 0.0]]


def test_sapo_s_gate_is_steeper_for_negative_advantages():
    rows = batch()

    surrogate = SAPO(tau_positive=1.0, tau_negative=2.0)(rows)["surrogate"]
    surrogate.sum().backward()

    # 4 s(8) = 3.998659; -(4 / 2) s(2 * -0.5) = -2 * 0.2689414
    torch.testing.assert_close(surrogate.detach(), torch.tensor([[3.998659, -0.5378828, 0.0]]))
    # 4 s (1 - s): 0.0013401 for s(8); -4 * 0.1966119 for s(-1)
    torch.testing.assert_close(
        rows["ratio"].grad, torch.tensor([[0.0013401, -0.7864477, 0.0]]), atol=1e-6, rtol=1e-5
    )


def test_a_gate_without_steepness_is_refused():
    with pytest.raises(ConfigError, match=r"tau_negative is 0.0: must be greater than 0"):
        SAPO(tau_negative=0.0)

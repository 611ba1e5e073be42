import pytest
import torch
from tensordict import TensorDict

from components.loss.ratio import TokenRatio
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch() -> TensorDict:
    return make_batch(
        response_mask=[[False, True, True]],
        log_probs=[[3.0, -1.0, -2.0]],
        old_log_probs=[[0.0, -1.2, -1.5]],
    )


def test_the_ratio_is_that_of_each_token_and_1_outside_the_mask():
    # e^0.2, e^-0.5
    torch.testing.assert_close(
        TokenRatio()(batch())["ratio"], torch.tensor([[1.0, 1.2214028, 0.6065307]])
    )


def test_the_distance_to_the_old_policy_is_recorded():
    with recording() as ledger:
        TokenRatio()(batch())

    # k3 of the old policy against the new: d = -0.2, 0.5; e^-d - 1 + d = 0.0214028, 0.1065307.
    assert ledger.means()["ratio/mean"] == pytest.approx((1.2214028 + 0.6065307) / 2)
    assert ledger.means()["ratio/approx_kl"] == pytest.approx((0.0214028 + 0.1065307) / 2, abs=1e-6)

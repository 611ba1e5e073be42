import pytest
import torch

from components.loss.policy import PolicyLoss
from components.loss.ratio import TokenRatio
from components.loss.reduction import TokenMean
from components.loss.trust_region.clip import Clip
from components.loss.weight.rows import OverlongMask
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def batch():
    return make_batch(
        response_mask=[[True, True, True], [True, False, False]],
        truncated=[True, False],
        log_probs=torch.zeros(2, 3, requires_grad=True),
        old_log_probs=torch.zeros(2, 3),
        advantage=torch.ones(2, 3),
    )


def test_truncated_answers_weigh_0():
    assert OverlongMask()(batch())["token_weight"].tolist() == [[0, 0, 0], [1, 0, 0]]


def test_they_stay_in_the_denominator():
    # One token of four is left: -1 / 4.
    rows = batch()
    weight = {"overlong": OverlongMask()}
    loss = PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=TokenMean(), weight=weight)

    loss(rows)["loss"].backward()

    assert rows["log_probs"].grad.tolist() == [[0, 0, 0], [-0.25, 0, 0]]


def test_the_dropped_share_is_recorded():
    with recording() as ledger:
        OverlongMask()(batch())

    assert ledger.means() == {"weight/dropped_overlong": pytest.approx(0.75)}

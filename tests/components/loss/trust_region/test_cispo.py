import pytest
import torch

from components.loss.trust_region.clip import CISPO
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")


def batch():
    return make_batch(
        response_mask=[[True, True, True, False]],
        log_probs=torch.tensor([[-1.0, -2.0, -0.5, NAN]], requires_grad=True),
        ratio=torch.tensor([[9.0, 0.1, 1.0, NAN]], requires_grad=True),
        advantage=[[1.0, -1.0, 2.0, NAN]],
    )


@pytest.mark.parametrize(
    ("bounds", "weights"),
    [
        ({}, (5, 0.1, 1)),
        ({"clip_low": 0.2, "clip_high": 0.28}, (1.28, 0.8, 1)),
        ({"clip_low": None, "clip_high": None}, (9, 0.1, 1)),
    ],
)
def test_the_gradient_is_the_bounded_ratio_times_the_advantage(bounds, weights):
    rows = batch()

    CISPO(**bounds)(rows)["surrogate"].sum().backward()

    want = [weights[0], -weights[1], 2 * weights[2], 0]
    assert rows["log_probs"].grad[0].tolist() == pytest.approx(want)


def test_the_weight_itself_has_no_gradient():
    rows = batch()

    CISPO()(rows)["surrogate"].sum().backward()

    assert rows["ratio"].grad is None


def test_the_value_is_that_of_weighted_log_probs():
    # 5 * 1 * -1, 0.1 * -1 * -2, 1 * 2 * -0.5
    surrogate = CISPO()(batch())["surrogate"]

    torch.testing.assert_close(surrogate.detach(), torch.tensor([[-5.0, 0.2, -1.0, 0.0]]))


def test_bounded_weights_are_counted_for_every_advantage():
    with recording() as ledger:
        CISPO(clip_low=0.2, clip_high=0.28)(batch())

    assert ledger.means() == pytest.approx(
        {"trust_region/clip_fraction_low": 1 / 3, "trust_region/clip_fraction_high": 1 / 3}
    )


def test_without_a_lower_bound_nothing_is_counted_below():
    with recording() as ledger:
        CISPO()(batch())

    assert ledger.means()["trust_region/clip_fraction_low"] == 0


def test_a_ratio_at_its_bound_is_not_clipped():
    rows = batch()
    rows["ratio"] = torch.tensor([[0.75, 1.25, 0.5, NAN]])

    with recording() as ledger:
        CISPO(clip_low=0.25, clip_high=0.25)(rows)

    assert ledger.means()["trust_region/clip_fraction_low"] == pytest.approx(1 / 3)
    assert ledger.means()["trust_region/clip_fraction_high"] == 0

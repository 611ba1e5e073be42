from math import exp

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.loss.trust_region.smooth import VESPO
from rlcomp.functional.importance import gamma_weight
from rlcomp.metrics import recording
from rlcomp.testing import make_batch

NAN = float("nan")
# phi(2) of k = 2, lambda = 3, and phi(0.5), phi(2) of k = 3, lambda = 2.
POSITIVE, LOW, HIGH = 4 * exp(-3), exp(1) / 8, 8 * exp(-2)


def batch():
    """Responses of 3, 1, 1 and 2 tokens, with ratios 2, 0.5, 2 and 2; the last has A = 0."""
    mask = torch.tensor([[1, 1, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1]]).bool()
    ratio = torch.tensor([2.0, 0.5, 2.0, 2.0])[:, None].expand(4, 3)
    advantage = torch.tensor([1.5, -0.5, -2.0, 0.0])[:, None].expand(4, 3)
    rows = [[-1.0, -2.0, -0.5], [NAN, -3.0, NAN], [-1.0, NAN, NAN], [-2.0, NAN, -1.0]]
    log_probs = torch.tensor(rows)
    return make_batch(
        response_mask=mask,
        log_probs=log_probs.requires_grad_(),
        ratio=torch.where(mask, ratio, NAN).requires_grad_(),
        advantage=torch.where(mask, advantage, NAN),
    )


def test_the_gradient_is_the_weight_times_the_advantage():
    rows = batch()

    VESPO()(rows)["surrogate"].sum().backward()

    want = torch.zeros(4, 3)
    want[0], want[1, 1], want[2, 0] = 1.5 * POSITIVE, -0.5 * LOW, -2 * HIGH
    torch.testing.assert_close(rows["log_probs"].grad, want)
    assert rows["ratio"].grad is None


def test_each_sign_has_a_shape_and_a_rate_of_its_own():
    part = VESPO(shape_positive=1.0, rate_positive=0.5, shape_negative=2.0, rate_negative=0.1)

    surrogate = part(batch())["surrogate"].detach()

    # phi = r^k exp(lambda (1 - r)), times A and the log-prob.
    assert surrogate[0, 1].item() == pytest.approx(2 * exp(-0.5) * 1.5 * -2)
    assert surrogate[1, 1].item() == pytest.approx(0.25 * exp(0.05) * -0.5 * -3)
    assert surrogate[2, 0].item() == pytest.approx(4 * exp(-0.1) * -2 * -1)


def test_the_mean_weight_is_recorded():
    with recording() as ledger:
        VESPO()(batch())

    assert ledger.means() == pytest.approx({"trust_region/weight": (5 * POSITIVE + LOW + HIGH) / 7})


@given(st.floats(0.5, 5), st.floats(0.5, 5), st.floats(1e-8, 1e8))
def test_the_weight_is_1_at_ratio_1_and_largest_at_shape_over_rate(shape, rate, ratio):
    def weight(value):
        one = torch.tensor([[value]], dtype=torch.float64)
        return gamma_weight(one, torch.ones(1, 1), (shape, 9.0), (rate, 9.0)).item()

    assert weight(1.0) == 1
    assert 0 <= weight(ratio) <= weight(shape / rate) * (1 + 1e-9)

import math

import pytest
import torch

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.ratio import LOG_RATIO_BOUND, log_ratio

NAN, INF = float("nan"), float("inf")


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


ALL = torch.ones(1, 3, dtype=torch.bool)


def test_three_tokens_by_hand():
    # e^(-1 + 1.2), e^(-2 + 1.5), e^0.
    ratio = log_ratio(row(-1, -2, -0.5), row(-1.2, -1.5, -0.5), ALL).exp()

    torch.testing.assert_close(ratio, row(1.2214028, 0.6065307, 1), atol=1e-7, rtol=0)


def test_the_gradient_of_the_ratio_is_the_ratio():
    log_probs = row(-1, -2, -0.5).requires_grad_()

    log_ratio(log_probs, row(-1.2, -1.5, -0.5), ALL).exp().sum().backward()

    torch.testing.assert_close(log_probs.grad, row(1.2214028, 0.6065307, 1), atol=1e-7, rtol=0)


def test_no_gradient_reaches_the_old_policy():
    old = row(-1.2, -1.5, -0.5).requires_grad_()

    assert not log_ratio(row(-1, -2, -0.5), old, ALL).requires_grad


def test_outside_the_mask_the_ratio_is_1_whatever_stands_there():
    mask = torch.tensor([[True, False, False]])
    log_probs = row(-1, NAN, INF).requires_grad_()

    ratio = log_ratio(log_probs, row(-1, 0, NAN), mask).exp()
    ratio.sum().backward()

    assert ratio.tolist() == [[1.0, 1.0, 1.0]]
    assert log_probs.grad.tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("apart", [100.0, -100.0])
def test_far_apart_policies_are_cut_at_e_to_the_20_without_gradient(apart):
    log_probs = row(apart, 0, 0).requires_grad_()

    ratio = log_ratio(log_probs, row(0, 0, 0), ALL).exp()
    ratio.sum().backward()

    assert ratio[0, 0].item() == pytest.approx(math.exp(math.copysign(LOG_RATIO_BOUND, apart)))
    assert log_probs.grad[0, 0].item() == 0.0


def test_different_shapes_are_refused_with_all_three():
    with pytest.raises(
        ShapeError, match=r"'log_probs' .*\[1, 3\].*'old_log_probs' \[1, 2\].*'mask'"
    ):
        log_ratio(row(0, 0, 0), row(0, 0), ALL)


@pytest.mark.parametrize("bad", [float("nan"), -float("inf")])
def test_a_log_prob_that_is_not_finite_inside_the_mask_is_named(bad):
    with pytest.raises(NumericalError, match=r"'old_log_probs' is .* at \[0, 1\]"):
        log_ratio(torch.zeros(1, 2), torch.tensor([[0.0, bad]]), torch.ones(1, 2).bool())


def test_any_kind_of_mask_will_do():
    for mask in (torch.tensor([[1, 0]]), torch.tensor([[1.0, 0.0]])):
        assert log_ratio(torch.ones(1, 2), torch.zeros(1, 2), mask).tolist() == [[1.0, 0.0]]

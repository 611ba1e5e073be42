import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.reward_model import multi_label_loss

MARKS = st.lists(
    st.lists(st.sampled_from([0.0, 0.3, 1.0, math.nan]), min_size=3, max_size=3),
    min_size=1,
    max_size=4,
)


def test_multi_label_loss_by_hand():
    # Odds of 3 to 1: labels 1 and 0 cost log(4/3) and log 4; even odds cost log 2.
    logits = torch.tensor([[math.log(3), math.log(3)], [7.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([[1.0, 0.0], [math.nan, 1.0]], dtype=torch.float64)

    loss = multi_label_loss(logits, labels)

    assert loss.item() == pytest.approx((math.log(4 / 3) + math.log(4) + math.log(2)) / 3)


@given(MARKS)
def test_multi_label_gradient_is_the_error_of_known_labels(marks):
    labels = torch.tensor(marks, dtype=torch.float64)
    known = ~labels.isnan()
    logits = torch.linspace(-2, 2, labels.numel(), dtype=torch.float64).view(labels.shape)
    # What is unknown may be anything.
    logits = logits.masked_fill(~known, math.nan).requires_grad_()

    multi_label_loss(logits, labels).backward()

    error = (logits.detach().sigmoid() - labels) / known.sum()
    torch.testing.assert_close(logits.grad, torch.where(known, error, 0.0))


def test_multi_label_loss_without_known_labels_is_0():
    assert multi_label_loss(torch.ones(2, 3), torch.full((2, 3), math.nan)).item() == 0.0


@pytest.mark.parametrize("label", [-1.0, 1.5, math.inf])
def test_multi_label_loss_of_an_invalid_label_raises(label):
    labels = torch.tensor([[1.0, math.nan, label]])

    with pytest.raises(NumericalError, match=rf"holds {label}: a label is 0, 1 or between, NaN"):
        multi_label_loss(torch.zeros(1, 3), labels)


def test_multi_label_loss_of_different_shapes_raises():
    with pytest.raises(ShapeError, match=r"\[1, 2\].*\[2, 2\]"):
        multi_label_loss(torch.zeros(2, 2), torch.zeros(1, 2))

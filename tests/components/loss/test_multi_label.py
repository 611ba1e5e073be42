"""Binary cross-entropy over the labels that are known."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.loss.labels import MultiLabelLoss
from rlcomp.metrics import recording
from rlcomp.testing import check_loss

NAN = math.nan


def batch(logits, labels, valid=None):
    entries = {"label_logits": torch.tensor(logits), "labels": torch.tensor(labels)}
    if valid is not None:
        entries["reward_valid"] = torch.tensor(valid)
    return TensorDict(entries, batch_size=[len(logits)])


def test_three_known_labels_by_hand():
    # -log s(0) = log 2; -log(1 - s(log 3)) = log 4; -log s(log 3) = log 4/3; the fourth is unknown.
    rows = batch([[0.0, math.log(3)], [math.log(3), 50.0]], [[1.0, 0.0], [1.0, NAN]])

    with recording() as told:
        loss = MultiLabelLoss()(rows)["loss"]

    mean = (math.log(2) + math.log(4) + math.log(4 / 3)) / 3
    assert float(loss) == pytest.approx(mean)
    assert told.means() == {
        "labels/nll": pytest.approx(mean),
        "labels/known": pytest.approx(3 / 4),
    }


def test_the_gradient_is_probability_minus_label_over_the_known_and_zero_elsewhere():
    rows = batch([[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.25, NAN]])
    rows["label_logits"].requires_grad_()

    MultiLabelLoss()(rows)["loss"].backward()

    # s(0) - y, over three known labels.
    assert rows["label_logits"].grad.tolist() == [
        [pytest.approx(-0.5 / 3), pytest.approx(0.5 / 3)],
        [pytest.approx(0.25 / 3), 0.0],
    ]


def test_a_text_that_does_not_count_is_not_in_the_denominator():
    rows = batch([[0.0, 0.0], [9.0, 9.0]], [[1.0, 0.0], [0.0, 0.0]], [True, False])

    with recording() as told:
        loss = MultiLabelLoss()(rows)["loss"]

    assert float(loss) == pytest.approx(math.log(2))
    assert told.means()["labels/known"] == 1.0


def test_nothing_known_is_a_loss_of_zero_without_gradient():
    rows = batch([[3.0]], [[NAN]])
    rows["label_logits"].requires_grad_()

    loss = MultiLabelLoss()(rows)["loss"]
    loss.backward()

    assert loss.item() == 0.0
    assert rows["label_logits"].grad.tolist() == [[0.0]]


def test_it_keeps_the_contract_of_losses():
    check_loss(MultiLabelLoss())

"""Cross-entropy of process and outcome reward models, by hand."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.loss.labels import OutcomeLabelLoss, StepLabelLoss
from rlcomp.errors import DataError
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, example_batch


def softplus(x):
    return math.log1p(math.exp(x))


def steps():
    # Three labelled steps in two answers; what stands elsewhere is none.
    rows = {
        "token_score": torch.tensor([[math.nan, 2.0, 1.0], [-1.0, 9.0, 9.0]]).requires_grad_(),
        "step_end": torch.tensor([[False, True, True], [True, False, True]]),
        "step_label": torch.tensor([[9.0, 1.0, 0.25], [0.0, 9.0, 0.0]]),
        "response_mask": torch.tensor([[True, True, True], [True, True, False]]),
    }
    return TensorDict(rows, [2])


def test_the_mean_is_over_the_labelled_steps_of_all_answers():
    batch = steps()

    value = StepLabelLoss()(batch)["loss"]
    value.backward()

    each = softplus(-2), 0.25 * softplus(-1) + 0.75 * softplus(1), softplus(-1)
    assert value.item() == pytest.approx(sum(each) / 3)
    sigmoid = [1 / (1 + math.exp(-x)) for x in (2, 1, -1)]
    slopes = [[0, sigmoid[0] - 1, sigmoid[1] - 0.25], [sigmoid[2], 0, 0]]
    torch.testing.assert_close(batch["token_score"].grad, torch.tensor(slopes) / 3)


def test_the_accuracy_of_steps_is_recorded():
    with recording() as ledger:
        StepLabelLoss()(steps())

    assert ledger.means() == pytest.approx({"process/accuracy": 2 / 3})


def answers(**more):
    rows = {
        "token_score": torch.tensor([[math.nan, 2.0, 1.0], [-1.0, 9.0, 9.0], [1.0] * 3]),
        "model_score": torch.tensor([1.0, -1.0, 5.0]),
        "response_mask": torch.tensor([[False, True, True], [True, False, False], [True] * 3]),
        "reward": torch.tensor([1.0, 1.0, 7.0]),
        "reward_valid": torch.tensor([True, True, False]),
        **more,
    }
    return TensorDict(rows, [3])


def test_the_outcome_is_the_label_of_all_tokens_or_the_last():
    every = OutcomeLabelLoss(positions="all")(answers())["loss"]
    last = OutcomeLabelLoss(positions="last")(answers())["loss"]

    first = (softplus(-2) + softplus(-1)) / 2
    assert every.item() == pytest.approx((first + softplus(1)) / 2)
    assert last.item() == pytest.approx((softplus(-1) + softplus(1)) / 2)


def test_the_accuracy_of_outcomes_is_recorded():
    with recording() as ledger:
        OutcomeLabelLoss()(answers())

    assert ledger.means() == {"outcome/accuracy": 0.5}


def test_a_reward_that_is_no_outcome_is_refused():
    with pytest.raises(DataError, match="outcome is from 0"):
        OutcomeLabelLoss()(answers(reward=torch.tensor([1.0, 2.0, 0.0])))


def test_even_odds_say_wrong_and_so_does_a_label_of_one_half():
    half = steps().set("token_score", torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]))
    half["step_label"] = torch.tensor([[9.0, 1.0, 0.5], [0.5, 9.0, 9.0]])
    even = answers(model_score=torch.tensor([0.0, 1.0, 5.0]), reward=torch.tensor([0.5, 0.5, 7.0]))

    with recording() as ledger:
        StepLabelLoss()(half)
        OutcomeLabelLoss()(even)

    # Steps: right taken for wrong, half for right, half for wrong; answers: wrong, right.
    assert ledger.means()["process/accuracy"] == pytest.approx(1 / 3)
    assert ledger.means()["outcome/accuracy"] == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    "loss", [StepLabelLoss(), OutcomeLabelLoss(), OutcomeLabelLoss(positions="last")]
)
def test_they_keep_the_contract(loss):
    batch = example_batch((*loss.reads, *loss.optional), dtype=torch.float64)
    if "reward" in batch.keys():
        batch["reward"] = (torch.arange(len(batch)) % 3 / 2).double()
    check_loss(loss, batch)

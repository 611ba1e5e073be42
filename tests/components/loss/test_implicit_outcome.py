"""Cross-entropy of an implicit reward model: a right, a wrong and an unjudged answer, by hand."""

import math

import pytest
import torch
from tensordict import TensorDict

from components.loss.labels import ImplicitOutcomeLoss
from rlcomp.errors import DataError
from rlcomp.metrics import recording
from rlcomp.testing import check_loss, example_batch


def rows(**more):
    # Log-ratios 2 + 1 of the right answer, -1 of the wrong one, whose second token is none.
    entries = {
        "log_probs": torch.tensor([[-1.0, -1.0], [-3.0, math.nan], [-9.0, -9.0]]).requires_grad_(),
        "ref_log_probs": torch.tensor([[-3.0, -2.0], [-2.0, 0.0], [0.0, 0.0]]),
        "response_mask": torch.tensor([[True, True], [True, False], [True, True]]),
        "reward": torch.tensor([1.0, 0.0, 5.0]),
        "reward_valid": torch.tensor([True, True, False]),
        **more,
    }
    return TensorDict(entries, [3])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def test_the_loss_and_its_gradient():
    batch = rows()

    value = ImplicitOutcomeLoss(beta=0.5)(batch)["loss"]
    value.backward()

    # r = 1.5 and -0.5.
    assert value.item() == pytest.approx(-(math.log(sigmoid(1.5)) + math.log(sigmoid(0.5))) / 2)
    # beta (s(r) - R) / 2 at every token of the answer.
    right, wrong = 0.5 * (sigmoid(1.5) - 1) / 2, 0.5 * sigmoid(-0.5) / 2
    slopes = torch.tensor([[right, right], [wrong, 0], [0, 0]])
    torch.testing.assert_close(batch["log_probs"].grad, slopes)


def test_a_soft_outcome_is_met_at_its_log_odds():
    log_probs = torch.tensor([[math.log(3) * 2]], requires_grad=True)
    soft = {
        "log_probs": log_probs,
        "ref_log_probs": torch.zeros(1, 1),
        "response_mask": torch.ones(1, 1, dtype=torch.bool),
        "reward": torch.tensor([0.75]),
    }

    ImplicitOutcomeLoss(beta=0.5)(TensorDict(soft, [1]))["loss"].backward()

    torch.testing.assert_close(log_probs.grad, torch.zeros(1, 1), atol=1e-7, rtol=0)


def test_its_accuracy_is_recorded():
    with recording() as ledger:
        ImplicitOutcomeLoss()(rows(reward=torch.tensor([1.0, 1.0, 0.0])))

    assert ledger.means() == {"implicit_reward/accuracy": 0.5}


def test_even_odds_say_wrong_and_so_does_an_outcome_of_one_half():
    even = torch.tensor([[-3.0, -2.0], [-2.0, 0.0], [0.0, 0.0]])
    soft = torch.tensor([0.5, 1.0, 5.0])

    with recording() as ledger:
        ImplicitOutcomeLoss()(rows(log_probs=even, reward=soft))

    assert ledger.means() == {"implicit_reward/accuracy": 0.5}


@pytest.mark.parametrize("reward", [-1.0, 1.5, math.nan])
def test_a_reward_that_is_no_outcome_is_refused(reward):
    with pytest.raises(DataError, match=rf"the reward {reward:g}, but an outcome is from 0"):
        ImplicitOutcomeLoss()(rows(reward=torch.tensor([1.0, reward, 0.0])))


def test_it_keeps_the_contract():
    loss = ImplicitOutcomeLoss()
    batch = example_batch((*loss.reads, *loss.optional), dtype=torch.float64)
    batch["reward"] = (torch.arange(len(batch)) % 3 / 2).double()
    check_loss(loss, batch)

"""Brier score of a critic against fresh continuations."""

import pytest
import torch
from tensordict import TensorDict

from components.evaluator.value_quality import ValueQuality
from components.reward.answer import ExactMatch
from components.reward.function import FunctionReward
from components.reward.majority_vote import MajorityVote
from components.worlds.addition.task import Addition
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy


class Foretells:
    """Another value for each row: .1, .2, .3 on any token."""

    def values(self, batch):
        self.seen = batch
        each = torch.arange(1, len(batch) + 1) / 10
        return each[:, None] * batch["response_mask"]


def evaluator(reward, **changed):
    torch.manual_seed(3)
    arguments = {"num_prompts": 3, "continuations": 2, "max_new_tokens": 3} | changed
    return ValueQuality(
        policy=tiny_policy(),
        critic=Foretells(),
        task=Addition(digits=2, held_out=0.2),
        reward=reward,
        **arguments,
    )


def measured(part):
    with recording() as ledger:
        part(TensorDict({}, batch_size=[]))
    return ledger.means()


def test_errors_are_those_by_hand():
    outcomes = iter([1.0, 0.0, 1.0, None, 0.0, 0.0])
    metrics = measured(evaluator(FunctionReward(function=lambda response: next(outcomes))))

    # Values .1 .2 .3; outcomes 1 0, 1 (one invalid), 0 0; their mean .4.
    assert metrics["value_quality/brier"] == pytest.approx(
        (0.81 + 0.01 + 0.64 + 0.09 + 0.09) / 5, abs=1e-6
    )
    assert metrics["value_quality/brier_constant"] == pytest.approx(0.24, abs=1e-6)
    assert metrics["value_quality/error"] == pytest.approx((0.4 + 0.8 + 0.3) / 3, abs=1e-6)
    assert metrics["value_quality/invalid_fraction"] == pytest.approx(1 / 6)


class Place(Foretells):
    """How manieth of the response each token is."""

    def values(self, batch):
        self.places = batch["response_mask"].cumsum(1) * batch["response_mask"]
        return self.places.float()


def test_values_are_read_at_any_token_of_the_response():
    part = evaluator(
        FunctionReward(function=lambda response: 0.0), num_prompts=16, max_new_tokens=4
    )
    part.critic = Place()

    metrics = measured(part)

    # Of a response of n tokens each is as likely: squares of 1 to 4, never only of the first.
    lengths = part.critic.places.amax(1).double()
    expected = (lengths + 1) * (2 * lengths + 1) / 6
    assert 1 < metrics["value_quality/error"] < 4
    assert metrics["value_quality/brier"] == pytest.approx(expected.mean().item(), rel=0.5)


def test_every_evaluation_has_the_same_prompts_and_draws():
    part = evaluator(FunctionReward(function=lambda response: float(len(response) > 1)))

    assert measured(part) == measured(part)


def test_the_names_of_its_metrics():
    metrics = measured(evaluator(FunctionReward(function=lambda response: 1.0), name="mine"))

    assert metrics["mine/brier_constant"] == 0


def test_a_reward_that_compares_answers_is_refused():
    with pytest.raises(ConfigError, match=r"value_quality\.reward.*verifier"):
        evaluator(MajorityVote(reward=ExactMatch(), vote=str))

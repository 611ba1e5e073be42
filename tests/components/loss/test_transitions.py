import inspect

import pytest
import torch
from torchrl.objectives import SACLoss

from components.environment.control import Pendulum
from components.loss.transitions import TransitionLoss
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.continuous_control import gaussian_actor
from rlcomp.model.control import q_value
from rlcomp.testing import make_batch

# There is no target update beside these.
pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

SIZES = {"num_cells": [4], "inputs": ["observation"]}
ENTRIES = {"loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy"}


def sac(period=None, alone=None):
    torch.manual_seed(0)
    environment = Pendulum(num_envs=1)
    return TransitionLoss(
        objective=SACLoss,
        networks={
            "actor_network": gaussian_actor(environment=environment, **SIZES),
            "qvalue_network": q_value(environment=environment, layer_norm=False, **SIZES),
        },
        gamma=0.9,
        period=period or {},
        alone=alone,
    )


def batch():
    torch.manual_seed(1)
    flag = torch.zeros(8, 1, dtype=torch.bool)
    after = {"observation": torch.randn(8, 3), "reward": torch.randn(8, 1)}
    after |= {"terminated": flag, "done": flag}
    return make_batch(observation=torch.randn(8, 3), action=torch.rand(8, 1), next=after)


PERIOD = {"loss_actor": 3, "loss_alpha": 3}
ALONE = {"loss_qvalue": "qvalue_v2_loss"}


def test_critics_alone_have_the_very_loss_they_have_beside_the_others():
    whole, alone = sac(), sac(PERIOD, ALONE)
    rows = batch()

    for call in (1, 2, 3, 4):
        torch.manual_seed(call)
        expected = whole(rows)
        torch.manual_seed(call)
        with recording() as ledger:
            found = alone(rows)
        assert set(found.keys()) == (ENTRIES if call == 3 else {"loss_qvalue"})
        assert torch.equal(found["loss_qvalue"], expected["loss_qvalue"])
        names = {"loss/actor", "loss/qvalue", "loss/alpha"} if call == 3 else {"loss/qvalue"}
        assert ledger.means().keys() == names


def test_a_loss_computes_only_the_entries_of_the_call():
    loss = sac(PERIOD, ALONE)
    loss.objective.actor_loss = None  # a call would fail

    loss(batch())
    loss(batch())

    with pytest.raises(TypeError):
        loss(batch())


def test_without_such_a_method_the_rest_is_computed_and_left_out():
    loss = sac(PERIOD)

    assert [set(loss(batch()).keys()) == ENTRIES for _ in range(4)] == [False, False, True, False]


def test_calls_without_gradient_do_not_count():
    loss = sac(PERIOD, ALONE)
    with torch.no_grad():
        for _ in range(5):
            loss(batch())

    assert set(loss(batch()).keys()) == {"loss_qvalue"}
    assert int(loss.calls) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"period": {"loss_actr": 2}}, r"period names 'loss_actr', no entry .*loss_actor"),
        ({"alone": {"loss_q": "x"}}, r"alone names 'loss_q', no entry"),
        (
            {"alone": {"loss_qvalue": "value_los"}},
            r"alone\.loss_qvalue is 'value_los': SACLoss has",
        ),
    ],
)
def test_entries_and_methods_that_are_not_there_are_named(given, told):
    with pytest.raises(ConfigError, match=told):
        sac(**given)


@pytest.mark.parametrize(("part", "numbers"), [(TransitionLoss, {"gamma": 0.99})])
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers

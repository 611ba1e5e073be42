"""Against torchrl's own loss, which test_torchrl_losses.py holds against the paper's formula."""

import pytest
import torch
from torchrl.objectives import SACLoss

from components.environment.control import Pendulum
from components.loss.transitions import SACWithoutTargetEntropy, TransitionLoss
from rlcomp.model.continuous_control import gaussian_actor
from rlcomp.model.control import q_value
from rlcomp.testing import make_batch

# There is no target update beside these.
pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

SIZES = {"num_cells": [8], "inputs": ["observation"]}


def losses(kind, alpha, batch):
    """The loss's entries, from the same weights and draws each time."""
    torch.manual_seed(0)
    environment = Pendulum(num_envs=1)
    loss = TransitionLoss(
        objective=lambda **nets: kind(**nets, loss_function="l2", alpha_init=alpha),
        networks={
            "actor_network": gaussian_actor(environment=environment, **SIZES),
            "qvalue_network": q_value(environment=environment, layer_norm=True, **SIZES),
        },
        gamma=0.9,
        period={},
    )
    return loss(batch)


@pytest.fixture
def batch():
    torch.manual_seed(1)
    flag = torch.rand(16, 1) < 0.3
    after = {"observation": torch.randn(16, 3), "reward": torch.randn(16, 1)}
    after |= {"terminated": flag, "done": flag}
    return make_batch(observation=torch.randn(16, 3), action=torch.rand(16, 1), next=after)


def test_critics_are_fitted_as_without_entropy_the_policy_as_with_it(batch):
    ours = losses(SACWithoutTargetEntropy, 0.3, batch)

    bonus = losses(SACLoss, 0.3, batch)
    none = losses(SACLoss, 1e-30, batch)  # alpha log pi is 0 in float32 beside the values
    assert torch.equal(ours["loss_qvalue"], none["loss_qvalue"])
    assert not torch.isclose(ours["loss_qvalue"], bonus["loss_qvalue"])
    for key in ("loss_actor", "loss_alpha", "alpha"):
        assert torch.equal(ours[key], bonus[key])

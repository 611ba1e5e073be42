"""torchrl's losses of demonstrations against their formulas."""

from functools import partial

import pytest
import torch
from torchrl.objectives import BCLoss, DiffusionBCLoss

from components.environment.control import Pendulum
from components.loss.imitation import DemonstrationLoss
from components.worlds.point_maze.reach import Reach
from rlcomp.metrics import recording
from rlcomp.model.continuous_control import diffusion_actor, gaussian_actor
from rlcomp.testing import make_batch

REACH = Reach(num_envs=1, max_steps=5, stride=0.1, radius=0.1)


def shown(size=2):
    torch.manual_seed(4)
    seen, action = torch.randn(6, 2), torch.rand(6, size) * 1.8 - 0.9
    return make_batch(observation=seen, action=action, other=seen)


def test_cloning_of_a_squashed_gaussian_is_the_log_likelihood():
    torch.manual_seed(0)
    actor = gaussian_actor(environment=REACH, num_cells=[8], inputs=["observation"])
    loss, batch = DemonstrationLoss(objective=partial(BCLoss), policy=actor), shown()
    with recording() as ledger:
        value = loss(batch)["loss_bc"]

    held = actor(batch.select("observation"))
    u = batch["action"].atanh()
    each = torch.distributions.Normal(held["loc"], held["scale"]).log_prob(u)
    # |da / du| = 1 - tanh^2 u; both numbers of an action count.
    log_prob = (each - (1 - batch["action"] ** 2).log()).sum(-1)
    torch.testing.assert_close(value, -log_prob.mean(), atol=1e-4, rtol=1e-4)
    assert ledger.means() == {"loss/bc": pytest.approx(float(value.detach()))}
    assert loss.out_keys == ["loss_bc"]


def test_the_diffusion_loss_is_the_squared_error_of_the_noise():
    torch.manual_seed(0)
    actor = diffusion_actor(environment=REACH, num_cells=[8], num_steps=10)
    loss, batch = DemonstrationLoss(objective=partial(DiffusionBCLoss), policy=actor), shown()
    torch.manual_seed(7)
    value = loss(batch)["loss_diffusion_bc"]

    torch.manual_seed(7)
    step, noise = torch.randint(0, 10, (6,)), torch.randn(6, 2)
    left = torch.cumprod(1 - torch.linspace(0.01, 0.999, 10), 0)[step][:, None]
    noisy = left.sqrt() * batch["action"] + (1 - left).sqrt() * noise
    given = torch.cat([noisy, batch["observation"], step[:, None] / 10], dim=-1)
    predicted = actor.module.score_network.network(given)
    torch.testing.assert_close(value, ((predicted - noise) ** 2).mean())


def test_its_gradient_is_on_every_weight_of_the_policy():
    actor = diffusion_actor(environment=Pendulum(num_envs=1), num_cells=[8], num_steps=10)
    loss = DemonstrationLoss(objective=partial(DiffusionBCLoss), policy=actor)
    seen = make_batch(observation=torch.randn(6, 3), action=torch.randn(6, 1))

    loss(seen)["loss_diffusion_bc"].backward()

    assert all(bool(weight.grad.any()) for weight in actor.parameters())

import pytest
import torch
from torchrl.envs import ExplorationType, set_exploration_type

from components.environment.control import CartPole, Pendulum
from rlcomp.errors import ConfigError
from rlcomp.model.continuous_control import ScaledTime, diffusion_actor
from rlcomp.testing import make_batch


def made(num_steps=40):
    torch.manual_seed(0)
    return diffusion_actor(environment=Pendulum(num_envs=1), num_cells=[8], num_steps=num_steps)


@pytest.mark.parametrize("num_steps", [40, 100, 1000])
def test_nearly_nothing_of_the_action_is_left_at_the_last_step(num_steps):
    left = made(num_steps).module.alphas_cumprod

    # sum beta = 10: exp(-10) = 5e-5, and less where single steps take much.
    assert float(left[-1]) < 6e-5
    assert float(left[0]) > 0.99


def test_a_thousand_steps_are_those_of_the_paper():
    betas = made(1000).module.betas

    torch.testing.assert_close(betas[[0, -1]], torch.tensor([1e-4, 0.02]))


def test_the_network_is_told_the_share_of_the_steps():
    told = ScaledTime(torch.nn.Identity(), 40)(torch.tensor([[0.5, 1.0, 10.0]]))

    assert told.tolist() == [[0.5, 1.0, 0.25]]
    many = torch.arange(24.0).view(2, 3, 4)
    told = ScaledTime(torch.nn.Identity(), 2)(many)
    assert told[..., :3].equal(many[..., :3])
    assert told[..., 3].equal(many[..., 3] / 2)


def test_it_draws_actions_and_greedily_repeats_itself():
    actor, seen = made(), make_batch(observation=torch.randn(4, 3))
    with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
        greedy = [actor(seen.clone())["action"] for _ in range(2)]
    with set_exploration_type(ExplorationType.RANDOM), torch.no_grad():
        drawn = [actor(seen.clone())["action"] for _ in range(2)]

    assert torch.equal(*greedy)
    assert not torch.equal(*drawn)
    assert greedy[0].shape == (4, 1)


def test_numbered_actions_are_refused():
    with pytest.raises(ConfigError, match="bounded vectors"):
        diffusion_actor(environment=CartPole(num_envs=1), num_cells=[8], num_steps=10)

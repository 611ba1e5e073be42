from functools import partial

import pytest
import torch
from torchrl.envs import ExplorationType, set_exploration_type

from components.environment.control import CartPole, Pendulum, gymnasium_environment
from rlcomp.errors import ConfigError
from rlcomp.model.continuous_control import deterministic_actor, gaussian_actor, uniform_actor
from rlcomp.model.control import action_values, q_value
from rlcomp.testing import make_batch


@pytest.fixture(autouse=True)
def without_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


SIZES = {"num_cells": [8], "inputs": ["observation"]}


def seen(rows=2000, width=3):
    return make_batch(observation=torch.randn(rows, width))


def test_actions_stay_within_the_environments_bounds():
    actor = gaussian_actor(environment=Pendulum(num_envs=1), **SIZES)

    with set_exploration_type(ExplorationType.RANDOM):
        action = actor(seen())["action"]

    assert action.shape == (2000, 1)
    assert 1.5 < float(action.abs().max()) <= 2.0


def test_the_greedy_action_is_the_squashed_mean():
    actor = gaussian_actor(environment=Pendulum(num_envs=1), **SIZES)

    with set_exploration_type(ExplorationType.DETERMINISTIC):
        batch = actor(seen(5))

    torch.testing.assert_close(batch["action"], 2 * batch["loc"].tanh())


def test_the_scale_lies_between_its_bounds():
    actor = gaussian_actor(environment=Pendulum(num_envs=1), **SIZES)
    for weight in actor.parameters():
        weight.data *= 1000 * torch.randn_like(weight)

    scale = actor(seen())["scale"]

    # e^-5 = .00674, e^2 = 7.389
    assert float(scale.min()) == pytest.approx(0.00674, abs=1e-5)
    assert float(scale.max()) == pytest.approx(7.389, abs=1e-3)


def test_a_deterministic_policy_reaches_both_bounds():
    actor = deterministic_actor(environment=Pendulum(num_envs=1), **SIZES, activation="tanh")
    for weight in actor.parameters():
        weight.data *= 1000

    action = actor(seen())["action"]

    assert (float(action.min()), float(action.max())) == (-2.0, 2.0)


def test_uniform_actions_look_at_nothing():
    continuous = uniform_actor(environment=Pendulum(num_envs=1))(seen())["action"]
    numbered = uniform_actor(environment=CartPole(num_envs=1))(seen(width=4))["action"]

    # Of [-2, 2] the mean is 0 and the sd 4 / sqrt(12) = 1.155; standard errors .026 and .011.
    assert abs(float(continuous.mean())) < 0.13
    assert float(continuous.std()) == pytest.approx(1.155, abs=0.06)
    assert float(numbered.float().mean()) == pytest.approx(0.5, abs=0.055)
    assert numbered.shape == (2000,)


@pytest.mark.parametrize("make", [gaussian_actor, partial(deterministic_actor, activation="relu")])
def test_numbered_actions_are_refused_with_the_recipe_for_them(make):
    with pytest.raises(ConfigError, match=r"actions are Categorical, .*recipe=dqn"):
        make(environment=CartPole(num_envs=1), **SIZES)


def test_continuous_actions_are_refused_where_each_has_a_value():
    with pytest.raises(ConfigError, match=r"actions are Bounded.*, .*recipe=sac"):
        action_values(environment=Pendulum(num_envs=1), num_cells=[8])


def test_an_input_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="not one vector 'desired_goal'"):
        gaussian_actor(
            environment=Pendulum(num_envs=1), num_cells=[8], inputs=["observation", "desired_goal"]
        )


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_critic_gives_a_value_of_state_and_action(layer_norm):
    critic = q_value(environment=Pendulum(num_envs=1), **SIZES, layer_norm=layer_norm)

    value = critic(seen(5).update({"action": torch.randn(5, 1)}))["state_action_value"]

    norms = [m for m in critic.modules() if isinstance(m, torch.nn.LayerNorm)]
    assert value.shape == (5, 1)
    assert len(norms) == int(layer_norm)


def test_gymnasiums_bounds_are_read_as_well():
    environment = gymnasium_environment(name="Pendulum-v1", num_envs=1)

    with set_exploration_type(ExplorationType.RANDOM):
        action = gaussian_actor(environment=environment, **SIZES)(seen())["action"]

    assert 1.5 < float(action.abs().max()) <= 2.0

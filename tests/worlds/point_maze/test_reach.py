import inspect

import pytest
import torch
from torchrl.envs.utils import check_env_specs

from components.collector.steps import GoalStepCollector
from components.environment.control import Pendulum
from components.worlds.point_maze.reach import Reach
from rlcomp.errors import ConfigError
from rlcomp.model.continuous_control import uniform_actor
from rlcomp.run.stages import Nothing


def reach(num_envs=3):
    return Reach(num_envs=num_envs, max_steps=5, stride=0.1, radius=0.05)


def collector(environment):
    return GoalStepCollector(
        environment=environment,
        policy=uniform_actor(environment=environment),
        exploration=Nothing(),
        num_steps=4,
    )


def test_hands_and_goals_begin_anywhere_in_the_square():
    state = reach(200).begin()

    assert state.abs().max() <= 1
    assert (state.amax(0) > 0.8).all()
    assert (state.amin(0) < -0.8).all()


def test_one_step_by_hand():
    # (.95, 0) + .1 (1, -.5) = (1.05, -.05), kept in the square: (1, -.05); the goal is .04 away.
    state = torch.tensor([[0.95, 0.0, 1.0, -0.01]])

    after, reward, ended = reach(1).advance(state, torch.tensor([[1.0, -0.5]]))

    assert after[0].tolist() == pytest.approx([1.0, -0.05, 1.0, -0.01])
    assert reward.tolist() == [0.0]
    assert not ended.any()


def test_the_reward_knows_every_goal():
    achieved = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    desired = torch.tensor([[0.03, 0.03], [0.04, 0.04]])

    # Distances .042 and .057, radius .05.
    assert reach().reward_of(achieved, desired).tolist() == [0.0, -1.0]


def test_torchrl_takes_it_for_an_environment():
    check_env_specs(reach())


def test_a_batch_has_goals_and_episodes():
    batch = collector(reach())()

    assert torch.equal(batch["next", "desired_goal"], batch["desired_goal"])
    assert torch.equal(batch["next", "achieved_goal"], batch["next", "observation"])
    assert batch["trajectory"][..., 0].tolist() == [[0] * 4, [1] * 4, [2] * 4]


def test_an_environment_without_goals_names_the_key_that_is_not_there():
    with pytest.raises(ConfigError, match=r"has no 'achieved_goal'.*recipe=her"):
        collector(Pendulum(num_envs=1))


@pytest.mark.parametrize(
    ("part", "numbers"),
    [(Reach, {"num_envs": 16, "max_steps": 50, "stride": 0.05, "radius": 0.05})],
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers

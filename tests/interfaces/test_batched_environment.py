"""Dynamics of the own environments: drawn for each episode, set by who evaluates."""

import pytest
import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import EnvBase

from components.environment.control import CartPole, Pendulum, control_environment
from components.randomise import LogUniform, UniformDynamics
from components.worlds.point_maze.reach import Reach
from components.worlds.track.environment import Track
from rlcomp.errors import ConfigError
from rlcomp.interfaces.batched_environment import HasDynamics
from rlcomp.seed import seeded

MADE = {
    CartPole: {},
    Pendulum: {},
    Track: {"noise": 0.2, "max_steps": 9},
    Reach: {"stride": 0.1, "radius": 0.1, "max_steps": 9},
}


def made(kind, randomise=None, num_envs=4, **more):
    with seeded(0, "environment"):
        return kind(num_envs=num_envs, randomise=randomise, **{**MADE[kind], **more})


def played(environment, steps=30):
    spec = environment.action_spec_unbatched
    policy = TensorDictModule(
        lambda seen: spec.rand(seen.shape[:-1]), in_keys=["observation"], out_keys=["action"]
    )
    torch.manual_seed(0)
    rollout = environment.rollout(steps, policy, break_when_any_done=False)
    return rollout["next", "observation"]


@pytest.mark.parametrize("kind", MADE)
def test_a_width_of_zero_is_no_randomisation_to_the_bit(kind):
    plain = made(kind)
    widthless = made(kind, UniformDynamics(width=0.0, ranges=None))

    assert torch.equal(played(plain), played(widthless))
    assert set(plain.state_dict()) == set(widthless.state_dict())


@pytest.mark.parametrize("kind", MADE)
def test_randomisation_changes_the_steps_but_not_the_start_states(kind):
    plain, drawn = made(kind), made(kind, UniformDynamics(width=0.5, ranges=None))

    assert torch.equal(plain.reset()["observation"], drawn.reset()["observation"])
    assert not torch.equal(played(plain), played(drawn))


@pytest.mark.parametrize("kind", MADE)
def test_drawn_parameters_are_those_of_the_dynamics(kind):
    drawn = made(kind, LogUniform(factor=2.0, ranges=None), num_envs=3)
    drawn.reset()
    state = drawn.state.clone()
    action = drawn.action_spec.rand()
    values = {name: drawn.dynamics[name].clone() for name in kind.dynamics_names}
    generator = drawn.generator.get_state()

    after = drawn.advance(state, action)[0]

    for copy in range(3):
        alone = made(kind, num_envs=3)
        alone.set_dynamics({name: float(value[copy]) for name, value in values.items()})
        alone.generator.set_state(generator)
        torch.testing.assert_close(alone.advance(state, action)[0][copy], after[copy])
    nominal = {name: getattr(drawn, name) for name in kind.dynamics_names}
    for name, value in values.items():
        assert len(value.unique()) == 3
        assert bool(((nominal[name] / 2 <= value) & (value <= nominal[name] * 2)).all())


def test_every_parameter_of_cartpole_counts():
    state = torch.tensor([[0.1, 0.2, 0.05, -0.3]])
    push = torch.ones(1, dtype=torch.int64)
    own = made(CartPole, num_envs=1).advance(state, push)[0]

    for name in ("gravity", "cart", "pole", "half_length", "force"):
        other = made(CartPole, num_envs=1)
        other.set_dynamics({name: 2 * getattr(other, name)})
        assert not torch.equal(other.advance(state, push)[0], own)


def test_dynamics_are_drawn_where_an_episode_begins_and_stay_until_it_ends():
    environment = made(Pendulum, UniformDynamics(width=0.5, ranges=None), num_envs=2, max_steps=3)
    environment.reset()
    first = environment.drawn.clone()
    seen = environment.present()
    for steps in (1, 2, 3):
        seen["action"] = torch.zeros(2, 1)
        _, seen = environment.step_and_maybe_reset(seen)
        assert torch.equal(environment.drawn, first) == (steps < 3)
    environment.steps[0] = 2
    second = environment.drawn.clone()
    seen["action"] = torch.zeros(2, 1)
    environment.step_and_maybe_reset(seen)
    assert not torch.equal(environment.drawn[0], second[0])
    assert torch.equal(environment.drawn[1], second[1])


@pytest.mark.parametrize("kind", MADE)
def test_a_step_that_begins_episodes_anew_is_torchrls_to_the_bit(kind):
    randomise = UniformDynamics(width=0.5, ranges=None)
    ours, theirs = (made(kind, randomise, max_steps=3) for _ in range(2))
    seen, expected = ours.reset(), theirs.reset()
    for steps in range(8):
        for environment in (ours, theirs):
            environment.steps[0] += steps == 1  # this copy ends before the others
        action = ours.action_spec.rand()
        for one in (seen, expected):
            one["action"], one["logits"] = action, torch.full((4, 2), float(steps))
        stepped, seen = ours.step_and_maybe_reset(seen)
        wanted, expected = EnvBase.step_and_maybe_reset(theirs, expected)
        for one, other in ((stepped, wanted), (seen, expected)):
            assert set(one.keys(True, True)) == set(other.keys(True, True))
            for key in one.keys(True, True):
                assert torch.equal(one[key], other[key]), (steps, key)
            assert one.batch_size == other.batch_size
    assert all(torch.equal(a, b) for a, b in zip(ours.buffers(), theirs.buffers(), strict=True))


@pytest.mark.parametrize("kind", MADE)
def test_observations_have_the_declared_shapes_and_dtypes(kind):
    environment = made(kind)
    seen = environment.reset()

    for key, spec in environment.observation_spec.items():
        assert (seen[key].shape, seen[key].dtype) == (spec.shape, spec.dtype), key


def test_a_seed_gives_the_same_dynamics_again():
    environment = made(Pendulum, UniformDynamics(width=0.5, ranges=None))
    found = []
    for seed in (5, 5, 6):
        environment.set_seed(seed)
        environment.reset()
        found.append(environment.drawn.clone())

    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_drawn_parameters_are_part_of_the_state():
    environment = made(Pendulum, UniformDynamics(width=0.5, ranges={"mass": [1.0, 3.0]}))
    environment.reset()

    assert environment.state_dict()["drawn"].shape == (4, 1)
    assert torch.equal(environment.dynamics["mass"], environment.drawn[:, 0])
    assert environment.dynamics["length"] == 1.0


def test_dynamics_can_be_set_and_given_back():
    environment = made(Track)
    environment.set_dynamics({"speed": 4.0})

    assert environment.dynamics == {"speed": 4.0, "noise": 0.2}
    environment.set_dynamics({})
    assert environment.dynamics == {"speed": 2.0, "noise": 0.2}
    assert isinstance(environment, HasDynamics)


def test_a_parameter_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"Track has no parameter 'spead'.*'speed'"):
        made(Track).set_dynamics({"spead": 1.0})


def test_dynamics_of_gymnasium_are_refused():
    with pytest.raises(
        ConfigError, match=r"'Acrobot-v1', whose dynamics cannot be drawn.*randomise=none"
    ):
        control_environment(
            name="Acrobot-v1", num_envs=1, randomise=UniformDynamics(width=0.5, ranges=None)
        )


def test_environments_by_name_are_randomised():
    for name in ("Pendulum-v1", "CartPole-v1"):
        made_by_name = control_environment(
            name=name, num_envs=2, randomise=UniformDynamics(width=0.5, ranges=None)
        )
        assert made_by_name.ranges["gravity"] == pytest.approx(
            (made_by_name.gravity / 2, made_by_name.gravity * 1.5)
        )


def test_copies_of_a_group_have_the_same_dynamics():
    environment = made(Reach, UniformDynamics(width=0.5, ranges=None), num_envs=6)
    environment.begin_groups(3)

    stride = environment.dynamics["stride"]
    assert len(stride[:3].unique()) == len(stride[3:].unique()) == 1
    assert stride[0] != stride[3]


def test_groups_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match=r"num_envs is 6: must be a multiple of group_size, 4"):
        made(Reach, num_envs=6).begin_groups(4)


def test_copies_of_a_group_begin_alike():
    environment = made(Reach, num_envs=6)

    seen = environment.begin_groups(3)["observation"]

    assert torch.equal(seen[0], seen[2])
    assert torch.equal(seen[3], seen[5])
    assert not torch.equal(seen[0], seen[3])
    assert environment.steps.sum() == 0


def test_an_environment_is_still_a_module_without_weights():
    assert list(made(CartPole, UniformDynamics(width=0.5, ranges=None)).parameters()) == []

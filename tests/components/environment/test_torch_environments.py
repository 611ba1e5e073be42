"""The own environments of control: gymnasium's dynamics, episodes, and a state that is saved."""

import inspect

import gymnasium
import pytest
import torch
from tensordict.nn import TensorDictModule
from torchrl.envs.utils import check_env_specs

from components.environment.control import CartPole, Pendulum, control_environment
from rlcomp.seed import seeded

BOTH = [(Pendulum, "Pendulum-v1"), (CartPole, "CartPole-v1")]


def made(kind, num_envs=3, seed=0, **more):
    with seeded(seed, "environment"):
        return kind(num_envs=num_envs, **more)


def uniform(environment):
    spec = environment.action_spec_unbatched
    return TensorDictModule(
        lambda seen: spec.rand(seen.shape[:-1]), in_keys=["observation"], out_keys=["action"]
    )


def test_a_torque_has_limits_and_a_pendulum_begins_at_any_angle():
    pendulum = made(Pendulum, num_envs=400)
    state = torch.tensor([[0.5, 0.0]])
    strong, strongest = (pendulum.advance(state, torch.tensor([[u]])) for u in (9.0, 2.0))

    assert torch.equal(strong[0], strongest[0])
    assert torch.equal(strong[1], strongest[1])
    # A quarter of 400 in each quadrant, with a standard deviation of 9.
    quadrants = torch.histc(pendulum.begin()[:, 0], bins=4, min=-torch.pi, max=torch.pi)
    assert quadrants.sum() == 400
    assert quadrants.min() > 55


@pytest.mark.parametrize(("kind", "name"), BOTH)
def test_every_step_is_gymnasiums_own(kind, name):
    environment = made(kind)
    torch.manual_seed(0)
    rollout = environment.rollout(40, uniform(environment), break_when_any_done=False)

    alone = gymnasium.make(name)
    alone.reset()
    for row in rollout.reshape(-1):
        seen = row["observation"].double()
        state = seen if kind is CartPole else torch.stack([seen[1].atan2(seen[0]), seen[2]])
        alone.unwrapped.state = state.numpy()
        if kind is CartPole:
            alone.unwrapped.steps_beyond_terminated = None
        action = row["action"].numpy() if kind is Pendulum else int(row["action"])
        after, reward, ended, _, _ = alone.step(action)
        # It computes in float64: a few roundings of values up to 16 (float32: 1e-6 each).
        assert row["next", "observation"].tolist() == pytest.approx(after.tolist(), abs=2e-5)
        assert float(row["next", "reward"]) == pytest.approx(float(reward), abs=2e-5)
        assert bool(row["next", "terminated"]) == ended


@pytest.mark.parametrize(("kind", "name"), BOTH)
def test_torchrl_takes_it_for_an_environment(kind, name):
    check_env_specs(made(kind))


def test_a_hanging_pendulum_that_nobody_pushes_stays():
    # th = pi, th' = 0, u = 0: reward -pi^2, and sin(pi) = 0 moves nothing.
    after, reward, ended = made(Pendulum, 1).advance(
        torch.tensor([[torch.pi, 0.0]]), torch.zeros(1, 1)
    )

    torch.testing.assert_close(after, torch.tensor([[torch.pi, 0.0]]), atol=2e-6, rtol=0)
    assert float(reward) == pytest.approx(-(torch.pi**2), abs=1e-5)
    assert not ended.any()


def test_an_episode_is_cut_and_not_terminated():
    environment = made(Pendulum, 2, max_steps=3)

    after = environment.rollout(7, uniform(environment), break_when_any_done=False)["next"]

    assert after["step_count"][0, :, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert after["truncated"][0, :, 0].tolist() == [False, False, True] * 2 + [False]
    assert not after["terminated"].any()


def test_an_episodes_rewards_are_summed():
    environment = made(Pendulum, 2, max_steps=3)

    after = environment.rollout(5, uniform(environment), break_when_any_done=False)["next"]

    reward = after["reward"][:, :, 0]
    torch.testing.assert_close(after["episode_reward"][:, 2, 0], reward[:, :3].sum(1))
    torch.testing.assert_close(after["episode_reward"][:, 4, 0], reward[:, 3:].sum(1))


def test_every_episode_has_a_number_of_its_own():
    environment = made(Pendulum, 2, max_steps=2)

    rollout = environment.rollout(4, uniform(environment), break_when_any_done=False)

    assert rollout["trajectory"][:, :, 0].tolist() == [[0, 0, 2, 2], [1, 1, 3, 3]]
    assert rollout["next", "trajectory"][:, :, 0].tolist() == [[0, 0, 2, 2], [1, 1, 3, 3]]


def test_only_the_copies_that_fell_start_anew():
    environment = made(CartPole, 2)
    environment.reset()
    environment.state[:] = torch.tensor([[2.39, 5.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    seen = environment.present()
    seen["action"] = torch.ones(2, dtype=torch.int64)

    stepped, after = environment.step_and_maybe_reset(seen)

    assert stepped["next", "terminated"][:, 0].tolist() == [True, False]
    assert after["step_count"][:, 0].tolist() == [0, 1]
    assert float(after["observation"][0].abs().max()) <= 0.05


def test_the_known_names_need_no_gymnasium():
    assert isinstance(control_environment(name="Pendulum-v1", num_envs=2), Pendulum)
    assert isinstance(control_environment(name="CartPole-v1", num_envs=2), CartPole)
    other = control_environment(name="Acrobot-v1", num_envs=2)
    assert not isinstance(other, (Pendulum, CartPole))


def test_the_present_is_where_the_next_step_begins():
    environment = made(Pendulum)
    rollout = environment.rollout(4, uniform(environment), break_when_any_done=False)

    seen = environment.present()

    assert torch.equal(seen["observation"], rollout["next", "observation"][:, -1])
    assert seen["step_count"].flatten().tolist() == [4, 4, 4]
    assert not seen["done"].any()


@pytest.mark.parametrize(
    ("part", "numbers"),
    [(CartPole, {"num_envs": 16, "max_steps": 500}), (Pendulum, {"num_envs": 4, "max_steps": 200})],
)
def test_numbers_that_nobody_gives(part, numbers):
    given = inspect.signature(part.__init__).parameters.values()

    assert {p.name: p.default for p in given if isinstance(p.default, (int, float))} == numbers

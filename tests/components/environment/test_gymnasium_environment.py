import sys

import gymnasium
import pytest
import torch
from tensordict.nn import TensorDictModule

from components.environment.control import gymnasium_environment
from rlcomp.errors import ConfigError, MissingExtra
from rlcomp.seed import seeded


def cartpole(seed=0, num_envs=3):
    with seeded(seed, "environment"):
        return gymnasium_environment(name="CartPole-v1", num_envs=num_envs)


def played(environment, action, steps):
    """Always the same action in every copy."""
    still = torch.full(environment.batch_size, action)

    policy = TensorDictModule(lambda seen: still, in_keys=["observation"], out_keys=["action"])
    return environment.rollout(steps, policy, break_when_any_done=False)


def test_every_transition_is_gymnasiums_own():
    rollout = played(cartpole(), action=1, steps=15)

    alone = gymnasium.make("CartPole-v1")
    alone.reset()
    for row in rollout.reshape(-1):
        alone.unwrapped.state = row["observation"].double().numpy()
        alone.unwrapped.steps_beyond_terminated = None
        seen, reward, ended, _, _ = alone.step(1)
        # gymnasium keeps its state in float64 and shows float32: one rounding of values below 4.
        assert row["next", "observation"].tolist() == pytest.approx(seen.tolist(), abs=1e-6)
        assert (float(row["next", "reward"]), bool(row["next", "terminated"])) == (reward, ended)


def test_an_ended_copy_starts_anew_while_the_others_go_on():
    rollout = played(cartpole(), action=1, steps=15)

    # Pushed to one side the pole falls after 8 to 11 steps, so each copy ends exactly once.
    done = rollout["next", "done"].squeeze(-1)
    assert done.sum(1).tolist() == [1, 1, 1]
    for copy in range(3):
        end = int(done[copy].nonzero())
        # CartPole ends beyond 12 degrees (0.2095 rad) and starts within 0.05 of 0.
        assert abs(float(rollout["next", "observation"][copy, end, 2])) > 0.2095
        assert rollout["observation"][copy, end + 1].abs().max() <= 0.05
        assert torch.equal(
            rollout["next", "observation"][copy, :end], rollout["observation"][copy, 1 : end + 1]
        )


def test_the_return_is_summed_from_the_start_of_each_episode():
    rollout = played(cartpole(), action=1, steps=15)

    # One point a step: the return of an episode is the number of its steps so far.
    expected, count = [], 0
    for ended in rollout["next", "done"][0].flatten().tolist():
        count += 1
        expected.append(count)
        count = 0 if ended else count
    assert rollout["next", "episode_reward"][0].flatten().tolist() == expected
    assert rollout["next", "step_count"][0].flatten().tolist() == expected


def test_the_start_follows_from_the_seed_in_progress():
    first, again, other = (cartpole(seed).reset()["observation"] for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_copies_start_differently():
    start = cartpole().reset()["observation"]

    assert len({tuple(row) for row in start.tolist()}) == 3


def test_a_step_takes_one_numbered_action_per_copy():
    environment = cartpole(num_envs=2)
    state = environment.reset()

    after = environment.step(state.set("action", torch.tensor([0, 1])))["next"]

    # Pushing left lowers the cart's velocity (second entry), pushing right raises it.
    change = after["observation"][:, 1] - state["observation"][:, 1]
    assert change[0] < 0 < change[1]


def test_an_unknown_name_is_the_users_mistake():
    with pytest.raises(ConfigError, match=r"name is 'CartPol-v1'.*CartPole"):
        gymnasium_environment(name="CartPol-v1", num_envs=1)


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)

    with pytest.raises(MissingExtra, match=r"rlcomp\[envs\]"):
        gymnasium_environment(name="CartPole-v1", num_envs=1)


def test_every_seed_has_a_start_of_its_own():
    starts = []
    for seed in (5, 5 + 62, 5 + 2**20):
        torch.manual_seed(seed)
        environment = gymnasium_environment(name="CartPole-v1", num_envs=1)
        starts.append(environment.reset()["observation"])

    assert not torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])

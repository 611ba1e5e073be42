"""Episodes of control."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch.distributions import Categorical
from torchrl.envs import GymEnv, SerialEnv
from torchrl.modules import ProbabilisticActor

from components.environment.control import gymnasium_environment
from components.evaluator.episodes import (
    GreedyReturn,
    GreedySuccess,
    HorizonCost,
    first_return,
    greedy_steps,
)
from components.worlds.point_maze.reach import Reach
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.metrics import recording
from rlcomp.seed import seeded
from rlcomp.testing import make_batch


def evaluation(policy, max_steps=60, num_envs=4):
    with seeded(0, "environment"):
        environment = gymnasium_environment(name="CartPole-v1", num_envs=num_envs)
    with seeded(0, "evaluation"):
        return GreedyReturn(environment=environment, policy=policy, max_steps=max_steps)


def rule(choose):
    """Return a policy that is a function of the observation."""
    return TensorDictModule(choose, in_keys=["observation"], out_keys=["action"])


def measured(episodes):
    with recording() as ledger:
        episodes(TensorDict({}, batch_size=[]))
    return ledger.means()["evaluation/return"]


def test_a_pole_pushed_to_one_side_soon_falls():
    right = rule(lambda seen: torch.ones(seen.shape[:-1], dtype=torch.int64))

    # From starts within 0.05 the pole passes 12 degrees after 8 to 11 pushes to the same side.
    assert 8 <= measured(evaluation(right)) <= 11


def test_the_likeliest_action_is_taken_even_with_a_small_lead():
    lead = TensorDictModule(
        lambda seen: torch.tensor([0.0, 1e-3]).expand(*seen.shape[:-1], 2),
        in_keys=["observation"],
        out_keys=["logits"],
    )
    likelier_right = ProbabilisticActor(lead, in_keys=["logits"], distribution_class=Categorical)

    # Always to the right: 8 to 11 steps, as above. At random it would be about 20.
    assert 8 <= measured(evaluation(likelier_right, num_envs=20)) <= 11


def test_longer_episodes_count_with_the_rewards_so_far():
    # Push in the direction of the pole: this rule balances for hundreds of steps.
    follow = rule(lambda seen: (seen[..., 2] + seen[..., 3] > 0).long())

    assert measured(evaluation(follow, max_steps=30)) == 30.0


def test_the_mean_over_the_copies_is_recorded(monkeypatch):
    right = rule(lambda seen: torch.ones(seen.shape[:-1], dtype=torch.int64))
    episodes = evaluation(right, num_envs=3)
    reward = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0], [64.0, 1.0, 1.0]])
    done = torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 1]]).bool()
    columns = iter(zip(reward.unsqueeze(-1).unbind(1), done.unsqueeze(-1).unbind(1), strict=True))

    def step(seen):
        after = TensorDict(dict(zip(("reward", "done"), next(columns), strict=True)), [3])
        return make_batch(next=after), seen

    monkeypatch.setattr(episodes.environment, "step_and_maybe_reset", step)

    # 1 + 2; 8 + 16 + 32; 64. All have ended then, and a fourth step would be an error.
    assert measured(episodes) == pytest.approx(123 / 3)


def test_steps_continue_until_every_copy_has_ended_one_episode():
    with seeded(0, "environment"):
        environment = gymnasium_environment(name="CartPole-v1", num_envs=4)
    right = rule(lambda seen: torch.ones(seen.shape[:-1], dtype=torch.int64))

    done = greedy_steps(environment, right, 60, seed=0)["done"][..., 0]
    first = done.long().argmax(1)
    assert done.any(1).all()
    assert done.shape == (4, int(first.max()) + 1)
    assert greedy_steps(environment, right, 5, seed=0).shape == (4, 5)


def test_every_evaluation_has_the_same_starts():
    right = rule(lambda seen: torch.ones(seen.shape[:-1], dtype=torch.int64))
    episodes = evaluation(right)

    assert measured(episodes) == measured(episodes)


def test_copies_of_torchrl_start_in_different_states():
    environment = SerialEnv(2, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))

    def stay(seen):
        return seen.set("action", torch.zeros(2, dtype=torch.int64))

    first, again = (greedy_steps(environment, stay, 1, seed=3) for _ in range(2))

    assert torch.equal(first["observation"], again["observation"])
    assert not torch.equal(first["observation"][0], first["observation"][1])


def test_the_training_batch_is_returned_unchanged():
    right = rule(lambda seen: torch.ones(seen.shape[:-1], dtype=torch.int64))
    batch = make_batch(reward=torch.zeros(3))

    assert evaluation(right)(batch) is batch


def test_the_first_return_ends_with_the_first_end():
    reward = torch.tensor([[1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 4.0, 8.0]])
    done = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()

    # 1 + 2; the first alone; never ended: everything.
    returns = first_return(reward.unsqueeze(-1), done.unsqueeze(-1))
    assert returns.tolist() == [3.0, 1.0, 15.0]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.sampled_from([float("nan"), 1e30]))
def test_nothing_after_the_first_end_matters(ends, rubbish):
    done = torch.tensor(ends).view(1, -1, 1)
    first = ends.index(True) if True in ends else len(ends) - 1
    reward = torch.ones(1, len(ends), 1)
    reward[:, first + 1 :] = rubbish

    assert first_return(reward, done).tolist() == pytest.approx([first + 1.0])


class Placed(Reach):
    """Three copies: at the goal after one step to the right, after three, and never."""

    def begin(self):
        goal = torch.tensor([[0.1, 0.0], [0.3, 0.0], [0.9, 0.9]])
        return torch.cat([torch.zeros(3, 2), goal], dim=1)


def success(max_steps, episode=10):
    environment = Placed(num_envs=3, max_steps=episode, stride=0.1, radius=0.05)
    policy = TensorDictModule(
        lambda seen: torch.tensor([1.0, 0.0]).expand(len(seen), 2),
        in_keys=["observation"],
        out_keys=["action"],
    )
    part = GreedySuccess(environment=environment, policy=policy, max_steps=max_steps, reward=0.0)
    with recording() as ledger:
        part()
    return round(ledger.means()["evaluation/success"], 4)


def test_the_share_of_copies_that_arrive_is_recorded():
    assert [success(steps) for steps in (1, 2, 3, 5)] == [0.3333, 0.3333, 0.6667, 0.6667]


def test_only_the_first_episode_of_a_copy_counts():
    # Episodes of two steps return to their start: the second copy never arrives.
    assert success(9, episode=2) == 0.3333


EPSILON = 0.05


class Cliff(BatchedEnvironment):
    """A chain beside a cliff: an error (probability epsilon a step) is a fall.

    What falls stays down; with ``recovers`` it is back on the path for the next step. Off the path
    a step costs 1.
    """

    size = 1
    action = 2

    def __init__(self, *, num_envs, max_steps, recovers):
        super().__init__(num_envs=num_envs, max_steps=max_steps)
        self.recovers = recovers

    def begin(self):
        return torch.zeros(self.num_envs, 1)

    def advance(self, state, action):
        fell = self.uniform(1, 0.0, 1.0) < EPSILON
        after = (fell if self.recovers else fell | (state > 0)).float()
        return after, -after[:, 0], torch.zeros(self.num_envs, dtype=torch.bool)

    def observe(self, state):
        return state.clone()

    def observations(self, state):
        return {"observation": state.clone(), "fallen": state.clone()}


def costs(recovers, copies=4000, horizons=(1, 10, 40)):
    with seeded(0, "environment"):
        environment = Cliff(num_envs=copies, max_steps=40, recovers=recovers)
    policy = TensorDictModule(
        lambda seen: torch.zeros(len(seen), dtype=torch.int64),
        in_keys=["observation"],
        out_keys=["action"],
    )
    part = HorizonCost(
        environment=environment, policy=policy, cost="fallen", horizons=list(horizons)
    )
    with recording() as ledger:
        part()
        first = ledger.means()
    with recording() as ledger:
        part()
    assert ledger.means() == first  # the same starts and the same noise
    return [first[f"evaluation/cost@{horizon}"] for horizon in horizons]


def test_errors_without_recovery_add_up_as_enumerated():
    # Fallen after t steps with probability 1 - (1 - eps)^t: the expected cost is their sum.
    expected = [sum(1 - (1 - EPSILON) ** t for t in range(1, h + 1)) for h in (1, 10, 40)]

    # The cost of 40 steps has an sd below 20: standard error .3; of 10 below 4: .06; of 1 .0035.
    assert costs(recovers=False) == [
        pytest.approx(want, abs=within)
        for want, within in zip(expected, (0.018, 0.3, 1.2), strict=True)
    ]


def test_errors_with_recovery_grow_with_the_horizon():
    # eps a step, independent: sd sqrt(40 x .05 x .95) = 1.4 over 40 steps, standard error .022.
    assert costs(recovers=True) == [
        pytest.approx(EPSILON * horizon, abs=within)
        for horizon, within in ((1, 0.018), (10, 0.055), (40, 0.11))
    ]

"""Why torchrl's hindsight and offline-to-online buffers, and its GAIL loss, are not used.

Each test shows the defect, and beside it what the part that is used instead does on the same rows.
"""

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import (
    HERReplayBuffer,
    LazyTensorStorage,
    OfflineToOnlineReplayBuffer,
    TensorDictReplayBuffer,
)
from torchrl.objectives import GAILLoss

from components.replay.goals import SampleHindsight
from components.replay.uniform import UniformReplay
from rlcomp.testing import make_batch

DRAWS = 4000


def chunk(first, last, steps_of_an_episode):
    """Steps ``first..last - 1`` of two copies, [2, T]; what was achieved is 100 copy + step."""
    step = torch.arange(first, last).expand(2, -1)[..., None]
    copy = torch.tensor([0, 100]).view(2, 1, 1)
    ended = step == steps_of_an_episode - 1
    place = (copy + step).float()
    return TensorDict(
        {
            "observation": place,
            "action": torch.zeros_like(place),
            "achieved_goal": place,
            "desired_goal": torch.full_like(place, -1.0),
            "trajectory": copy.expand_as(step) // 100,
            "step_count": step.clone(),
            "next": {
                "observation": place + 1,
                "achieved_goal": place + 1,
                "desired_goal": torch.full_like(place, -1.0),
                "reward": torch.full_like(place, -1.0),
                "done": ended,
                "terminated": torch.zeros_like(ended),
            },
        },
        batch_size=[2, last - first],
    ).reshape(-1)


def of_torchrl(*chunks):
    buffer = HERReplayBuffer(
        lambda rows: (rows["next", "achieved_goal"] == rows["desired_goal"]).float() - 1,
        her_ratio=1.0,
        storage=LazyTensorStorage(100),
        batch_size=DRAWS,
    )
    torch.manual_seed(0)
    for rows in chunks:
        buffer.extend(rows)
    return buffer.sample()


class Exact:
    def reward_of(self, achieved, desired):
        return (achieved == desired).float()[:, 0] - 1


def of_ours(*chunks):
    torch.manual_seed(0)
    replay = UniformReplay(capacity=100)
    for rows in chunks:
        replay.extend(rows)
    sample = SampleHindsight(
        replay=replay,
        environment=Exact(),
        batch_size=10,
        fraction=1.0,
        terminate_on_goal=False,
    )
    return torch.cat([sample() for _ in range(DRAWS // 10)])


def foreign(rows):
    """Share of the goals that another copy achieved."""
    return float((rows["desired_goal"] // 100 != rows["trajectory"]).float().mean())


def test_goals_are_of_the_own_copy_where_those_of_torchrl_are_not():
    chunks = chunk(0, 5, 10), chunk(5, 10, 10)

    assert foreign(of_torchrl(*chunks)) > 0.2
    assert foreign(of_ours(*chunks)) == 0.0


def test_the_state_one_is_in_is_no_goal_and_the_last_one_is():
    whole = chunk(0, 5, 5)
    theirs, ours = of_torchrl(whole), of_ours(whole)

    # Of five steps the goal is one's own state with 1/5, 1/4, 1/3, 1/2 and 1: .457 of all.
    own = float((theirs["desired_goal"] == theirs["achieved_goal"]).float().mean())
    assert own == pytest.approx((1 / 5 + 1 / 4 + 1 / 3 + 1 / 2 + 1) / 5, abs=0.03)
    assert float((theirs["desired_goal"] % 100).max()) == 4.0
    assert bool((ours["desired_goal"] > ours["achieved_goal"]).all())
    assert float((ours["desired_goal"] % 100).max()) == 5.0
    # The last step of an episode always succeeds with ours, never with theirs.
    for rows, reward in ((theirs, -1.0), (ours, 0.0)):
        last = rows["step_count"] == 4
        assert rows["next", "reward"][last].unique().tolist() == [reward]


def test_goals_are_drawn_from_the_own_generator_where_those_of_torchrl_are_not():
    whole = chunk(0, 5, 5)
    goals = []
    for seed in (1, 2):
        buffer = HERReplayBuffer(
            lambda rows: rows["next", "reward"],
            her_ratio=1.0,
            storage=LazyTensorStorage(100),
            batch_size=50,
        )
        buffer.set_rng(torch.Generator().manual_seed(7))
        buffer.extend(whole)
        torch.manual_seed(seed)
        goals.append(buffer.sample()["desired_goal"])
    assert not torch.equal(*goals)

    ours = []
    for seed in (1, 2):
        torch.manual_seed(7)
        replay = UniformReplay(capacity=100)
        replay.extend(whole)
        sample = SampleHindsight(
            replay=replay,
            environment=Exact(),
            batch_size=10,
            fraction=1.0,
            terminate_on_goal=False,
        )
        torch.manual_seed(seed)
        ours.append(sample()["desired_goal"])
    assert torch.equal(*ours)


def test_steps_of_a_file_and_of_the_run_are_drawn_together_where_torchrl_fails():
    offline = TensorDictReplayBuffer(storage=LazyTensorStorage(100))
    offline.extend(chunk(0, 5, 5))
    joined = OfflineToOnlineReplayBuffer(offline, online_capacity=100)
    joined.extend(chunk(0, 5, 5))
    with pytest.raises(KeyError, match="index"):
        joined.sample(4)
    assert not hasattr(joined, "set_rng")

    ours = UniformReplay(capacity=100)
    ours.extend(chunk(0, 5, 5))
    ours.extend(chunk(50, 55, 60))
    drawn = ours.sample(200)["step_count"]
    assert 60 < int((drawn >= 50).sum()) < 140


def discriminator(last):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 1), *last)
    return TensorDictModule(
        lambda seen, action: network(torch.cat([seen, action], dim=-1)),
        in_keys=["observation", "action"],
        out_keys=["d_logits"],
    )


def shown():
    torch.manual_seed(1)
    return make_batch(
        observation=torch.randn(6, 1),
        action=torch.randn(6, 1),
        collector_observation=torch.randn(6, 1),
        collector_action=torch.randn(6, 1),
    )


def test_what_gail_calls_logits_has_to_be_probabilities():
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        GAILLoss(discriminator([]))(shown())

    value = GAILLoss(discriminator([nn.Sigmoid()]))(shown())["loss"]
    rows = shown()

    def probability(seen, action):
        return discriminator([nn.Sigmoid()]).module(rows[seen], rows[action])

    # -log D(expert) - log(1 - D(policy)), the expert under the keys of the policy.
    expert = probability("observation", "action")
    policy = probability("collector_observation", "collector_action")
    torch.testing.assert_close(value, (-expert.log() - (1 - policy).log()).mean())


def test_the_penalty_of_gail_mixes_numbers_of_rows_by_different_shares():
    seen = []

    def spy(observation, action):
        seen.append((observation.detach(), action.detach()))
        return (observation.sum(-1, keepdim=True) + action).sigmoid()

    network = TensorDictModule(spy, in_keys=["observation", "action"], out_keys=["d_logits"])
    zeros, ones = torch.zeros(6, 3), torch.ones(6, 3)
    rows = make_batch(
        observation=zeros,
        action=zeros[:, :1],
        collector_observation=ones,
        collector_action=ones[:, :1],
    )
    GAILLoss(network, use_grad_penalty=True)(rows)

    # Gulrajani et al. 2017, arXiv:1704.00028: one epsilon for a row, so that it lies on the line.
    mixed = seen[-1][0]
    assert not torch.allclose(mixed, mixed[:, :1].expand_as(mixed))

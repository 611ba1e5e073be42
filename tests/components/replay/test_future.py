import pytest
import torch
from tensordict import TensorDict

from components.replay.goals import ExtendGoals, SampleFuture
from components.replay.uniform import UniformReplay
from rlcomp.checkpoint.state import collect, restore
from rlcomp.errors import ConfigError, FlowError
from rlcomp.seed import seeded


def episodes(copies=2, steps=3):
    """Achieved before step t of episode e: 100 e + t; after it 100 e + t + 1."""
    number = 100.0 * torch.arange(copies)[:, None] + torch.arange(steps)
    before = number[..., None]
    flag = torch.zeros(copies, steps, 1, dtype=torch.bool)
    asked = torch.full((copies, steps, 1), -1.0)
    after = {"observation": before + 1, "achieved_goal": before + 1, "desired_goal": asked}
    after |= {"reward": asked, "done": flag, "terminated": flag}
    entries = {"observation": before, "action": 2 * before, "desired_goal": asked, "next": after}
    entries["trajectory"] = torch.arange(copies)[:, None, None].expand(-1, steps, 1)
    entries["step_count"] = torch.arange(steps)[None, :, None].expand(copies, -1, 1)
    return TensorDict(entries, batch_size=[copies, steps])


def sampler(gamma=0.5, batch_size=6, seed=0):
    with seeded(seed, "replay"):
        replay = UniformReplay(capacity=100)
    with seeded(seed, "sample"):
        return replay, SampleFuture(replay=replay, batch_size=batch_size, gamma=gamma)


def test_goals_are_of_the_own_episodes_discounted_future():
    replay, sample = sampler()
    ExtendGoals(replay=replay)(episodes())

    rows = torch.cat([sample() for _ in range(2000)])

    goal, before = rows["desired_goal"][:, 0], rows["observation"][:, 0]
    assert torch.equal(goal // 100, before // 100)
    # k = 1, 2, 3 by 1, 1/2, 1/4; from step 1 on 1, 1/2; step 2 has its next state alone.
    for step, weights in ((0, (4, 2, 1)), (1, (2, 1)), (2, (1,))):
        counts = torch.bincount((goal - before)[before % 100 == step].long(), minlength=4)[1:]
        share = (counts / counts.sum()).tolist()
        expected = [weight / sum(weights) for weight in weights]
        assert share == pytest.approx([*expected, *[0.0] * (3 - len(weights))], abs=0.04)


def test_a_row_is_a_step_and_its_goal_alone():
    replay, sample = sampler()
    ExtendGoals(replay=replay)(episodes())

    rows = sample()

    assert set(rows.keys()) == {"observation", "action", "desired_goal"}
    assert rows.batch_size == (6,)
    assert torch.equal(rows["action"], 2 * rows["observation"])
    assert set(replay.rows()["desired_goal"].flatten().tolist()) == {-1.0}


def test_more_than_there_is_cannot_be_drawn():
    replay, sample = sampler(batch_size=7)
    ExtendGoals(replay=replay)(episodes())

    with pytest.raises(FlowError, match=r"holds 6 steps, batch_size is 7"):
        sample()


def test_a_batch_that_the_replay_never_holds_is_refused_when_it_is_built():
    with pytest.raises(ConfigError, match=r"replay\.capacity is 100, but 101 rows are drawn"):
        sampler(batch_size=101)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_a_future_without_discount_is_refused(gamma):
    with pytest.raises(ConfigError, match="gamma"):
        sampler(gamma=gamma)


def test_a_restored_sampler_draws_the_same(tmp_path):
    replay, sample = sampler()
    other, again = sampler(seed=4)
    ExtendGoals(replay=replay)(episodes())
    sample()

    state = collect({"replay": replay, "sample": sample})
    restore(tmp_path, {"replay": other, "sample": again}, *state, keep_generators=False)

    assert torch.equal(sample()["desired_goal"], again()["desired_goal"])

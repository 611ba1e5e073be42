import pytest
import torch
from tensordict import TensorDict

from components.environment.control import Pendulum
from components.replay.goals import ExtendGoals, SampleHindsight
from components.replay.uniform import UniformReplay
from components.worlds.point_maze.reach import Reach
from rlcomp.checkpoint.state import collect, restore
from rlcomp.errors import ConfigError, FlowError
from rlcomp.keys import nested
from rlcomp.metrics import recording
from rlcomp.seed import seeded


def episodes(copies=2, steps=3, first=0):
    """Achieved before step t of episode e: 100 e + t; after it 100 e + t + 1."""
    number = 100.0 * (first + torch.arange(copies))[:, None] + torch.arange(steps)
    goal, before = torch.full((copies, steps, 2), -1.0), number[..., None].expand(-1, -1, 2)
    flag = torch.zeros(copies, steps, 1, dtype=torch.bool)
    after = {
        "observation": before + 1,
        "achieved_goal": before + 1,
        "desired_goal": goal,
        "reward": torch.full((copies, steps, 1), -1.0),
        "done": flag,
        "terminated": flag,
    }
    episode = (first + torch.arange(copies))[:, None, None].expand(-1, steps, 1)
    step = torch.arange(steps)[None, :, None].expand(copies, -1, 1)
    entries = {"observation": before, "action": before, "desired_goal": goal, "next": after}
    entries |= {"trajectory": episode, "step_count": step}
    return TensorDict(entries, batch_size=[copies, steps])


def sampler(capacity=100, fraction=1.0, terminate=False, batch_size=6, seed=0):
    with seeded(seed, "replay"):
        replay = UniformReplay(capacity=capacity)
    with seeded(seed, "sample"):
        return replay, SampleHindsight(
            replay=replay,
            environment=Reach(num_envs=1, max_steps=5, stride=0.1, radius=0.5),
            batch_size=batch_size,
            fraction=fraction,
            terminate_on_goal=terminate,
        )


def drawn(sample, times=2000):
    return torch.cat([sample() for _ in range(times)])


def test_every_goal_was_achieved_later_in_the_own_episode_as_often_as_enumerated():
    replay, sample = sampler()
    ExtendGoals(replay=replay)(episodes())

    rows = drawn(sample)

    goal, before = rows["desired_goal"][:, 0], rows["observation"][:, 0]
    assert torch.equal(goal // 100, before // 100)  # no goal of another copy
    assert bool((goal > before).all())  # never the state one is in
    # Of step t of 3: each of t+1..3 with 1/(3 - t). 12,000 draws, 2,000 of a row.
    for step in range(3):
        counts = torch.bincount((goal - before)[before % 100 == step].long(), minlength=4)[1:]
        left = 3 - step
        share = counts[:left] / counts.sum()
        assert share.tolist() == pytest.approx([1 / left] * left, abs=0.04)
        assert counts[left:].sum() == 0


def test_the_reward_is_that_of_the_new_goal():
    replay, sample = sampler()
    ExtendGoals(replay=replay)(episodes())

    rows = drawn(sample, 50)

    there = rows["desired_goal"][:, 0] == rows["next", "achieved_goal"][:, 0]
    # Goals are 1 apart and the radius .5: 0 where the step led to the goal, else -1.
    assert torch.equal(rows["next", "reward"][:, 0], there.float() - 1)
    assert torch.equal(rows["next", "desired_goal"], rows["desired_goal"])
    assert not rows["next", "terminated"].any()
    assert 0.2 < float(there.float().mean()) < 0.9


def test_so_many_steps_keep_their_goal():
    replay, sample = sampler(fraction=0.25)
    ExtendGoals(replay=replay)(episodes())

    kept = drawn(sample)["desired_goal"][:, 0] == -1

    # Standard error .004.
    assert float(kept.float().mean()) == pytest.approx(0.75, abs=0.02)


def test_where_the_environment_ends_at_a_goal_a_step_that_reaches_it_terminates():
    replay, sample = sampler(terminate=True)
    ExtendGoals(replay=replay)(episodes())

    rows = drawn(sample, 50)

    there = rows["desired_goal"] == rows["next", "achieved_goal"]
    assert torch.equal(rows["next", "terminated"], there.all(-1, keepdim=True))
    assert torch.equal(rows["next", "done"], rows["next", "terminated"])


def test_a_goal_is_reached_in_all_of_its_numbers():
    replay, sample = sampler(terminate=True)
    line = episodes()
    line["next", "achieved_goal"] = line["next", "achieved_goal"] * torch.tensor([1.0, 0.0])
    ExtendGoals(replay=replay)(line)

    rows = drawn(sample, 50)

    # The second number of each goal is reached by every step.
    there = rows["desired_goal"][:, :1] == rows["next", "achieved_goal"][:, :1]
    assert 0 < int(there.sum()) < len(there)
    assert torch.equal(rows["next", "terminated"], there)


def test_an_episode_that_goes_on_in_the_next_batch_is_one():
    replay, sample = sampler()
    whole = episodes(copies=1, steps=6)
    for part in (whole[:, :2], whole[:, 2:]):
        ExtendGoals(replay=replay)(part)
        sample.batch_size = 2
        sample()

    rows = drawn(sample)

    assert float((rows["desired_goal"] - rows["observation"]).max()) == 6.0


def test_what_is_overwritten_is_no_goal_any_more():
    replay, sample = sampler(capacity=6, batch_size=6)
    ExtendGoals(replay=replay)(episodes())
    sample()
    ExtendGoals(replay=replay)(episodes(copies=1, first=5))

    rows = drawn(sample, 200)

    # Episode 0 is gone, 1 and 5 are there.
    assert set((rows["desired_goal"][:, 0] // 100).tolist()) == {1.0, 5.0}
    assert torch.equal(rows["desired_goal"][:, 0] // 100, rows["observation"][:, 0] // 100)


def test_what_is_stored_keeps_its_goal():
    replay, sample = sampler()
    ExtendGoals(replay=replay)(episodes())

    drawn(sample, 50)

    assert set(replay.rows()["desired_goal"].flatten().tolist()) == {-1.0}
    assert set(replay.rows()["next", "reward"].flatten().tolist()) == {-1.0}


def test_a_restored_sampler_draws_the_same_steps_and_goals(tmp_path):
    replay, sample = sampler()
    ExtendGoals(replay=replay)(episodes())
    sample()
    other, again = sampler(seed=4)
    state = collect({"replay": replay, "sample": sample})
    restore(tmp_path, {"replay": other, "sample": again}, *state, keep_generators=False)

    one, two = sample(), again()

    assert torch.equal(one["desired_goal"], two["desired_goal"])
    assert torch.equal(one["observation"], two["observation"])


def test_a_batch_that_the_replay_never_holds_is_refused_when_it_is_built():
    with pytest.raises(ConfigError, match=r"replay\.capacity is 5, but 6 rows are drawn"):
        sampler(capacity=5)


def test_fewer_rows_than_a_batch_are_told():
    replay, sample = sampler(batch_size=7)
    ExtendGoals(replay=replay)(episodes())

    with pytest.raises(FlowError, match="holds 6 steps, batch_size is 7"):
        sample()


def test_an_environment_without_goals_is_refused_when_it_is_built():
    replay = UniformReplay(capacity=9)
    told = r"Pendulum has no method reward_of.*recipe=her.*replay@sample=sample"

    with pytest.raises(ConfigError, match=told):
        SampleHindsight(
            replay=replay,
            environment=Pendulum(num_envs=1),
            batch_size=2,
            fraction=1.0,
            terminate_on_goal=False,
        )


@pytest.mark.parametrize("key", ["trajectory", "step_count", "next.achieved_goal"])
def test_steps_without_what_goals_are_drawn_from_are_told_by_the_key(key):
    replay, sample = sampler()
    replay.extend(episodes().reshape(-1).exclude(nested(key)))

    with pytest.raises(FlowError, match=f"have no '{key}'.*replay@sample=sample"):
        sample()


def test_the_size_is_recorded():
    replay, _ = sampler()

    with recording() as ledger:
        ExtendGoals(replay=replay)(episodes())

    assert ledger.means()["replay/size"] == 6.0


def test_four_goals_of_five_are_those_of_hindsight_and_no_goal_ends_an_episode():
    _, sample = sampler(capacity=256)

    # k = 4 of algorithm 1: four goals of hindsight beside each of the episode's own.
    usual = SampleHindsight(replay=sample.replay, environment=sample.environment)

    assert (usual.fraction, usual.batch_size, usual.terminate_on_goal) == (0.8, 256, False)

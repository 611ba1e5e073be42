from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict
from torchrl.collectors import Collector

from components.collector.steps import GymnasiumCollector
from components.environment.control import gymnasium_environment
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.control import actor
from rlcomp.run.check_flow import built_flow
from rlcomp.seed import seeded


def make(seed=0, num_steps=20):
    with seeded(seed, "environment"):
        environment = gymnasium_environment(name="CartPole-v1", num_envs=2)
    with seeded(seed, "actor"):
        policy = actor(environment=environment, num_cells=[4])
    with seeded(seed, "collector"):
        return GymnasiumCollector(environment=environment, policy=policy, num_steps=num_steps)


def collected(collector, batches=1):
    return [collector(TensorDict({}, batch_size=[])) for _ in range(batches)]


def test_torchrls_own_collector_does_the_work():
    collector = make()

    collected(collector)

    assert type(collector.collector) is Collector


def test_a_batch_has_so_many_steps_of_every_copy():
    (batch,) = collected(make(num_steps=5))

    assert batch.batch_size == (2, 5)


def test_episodes_go_on_in_the_next_batch():
    first, second = collected(make(num_steps=3), batches=2)

    # Nobody falls within 6 steps (8 is the least): the second batch starts where the first ended.
    assert torch.equal(first["next", "observation"][:, -1], second["observation"][:, 0])
    assert second["next", "step_count"].squeeze(-1).tolist() == [[4, 5, 6], [4, 5, 6]]


def test_only_ended_episodes_are_recorded():
    collector = make(num_steps=60)

    with recording() as ledger:
        (batch,) = collected(collector)

    # One point a step, so lengths are the distances between ends, within each copy.
    lengths = []
    for copy in batch["next", "done"].squeeze(-1):
        ends = [-1, *copy.nonzero().flatten().tolist()]
        lengths += [after - before for before, after in pairwise(ends)]
    mean = sum(lengths) / len(lengths)
    expected = {"episode/return": mean, "episode/length": mean, "collector/frames": 120.0}
    assert ledger.means() == pytest.approx(expected)


def test_of_the_steps_that_end_an_episode_the_mean_is_recorded():
    # Two copies, three steps; three episodes end.
    after = {
        "episode_reward": torch.tensor([[2.0, 5.0, 0.5], [1.0, 9.0, 2.5]]),
        "step_count": torch.tensor([[1, 4, 1], [3, 1, 2]]),
        "done": torch.tensor([[0, 1, 0], [1, 0, 1]]).bool(),
    }
    collector = make(num_steps=3)
    rollout = TensorDict({"next": TensorDict(after, batch_size=[2, 3])}, batch_size=[2, 3])
    collector.collector = SimpleNamespace(next=lambda: rollout)

    with recording() as ledger:
        collected(collector)

    assert ledger.means() == pytest.approx(
        {"episode/return": 8.5 / 3, "episode/length": 9 / 3, "collector/frames": 6.0}
    )


def test_without_an_ended_episode_no_return_is_recorded():
    with recording() as ledger:
        collected(make(num_steps=3))

    assert ledger.means() == {"collector/frames": 6.0}


def test_what_it_writes_is_known_before_the_first_step():
    collector = make()

    promised = built_flow(collector)
    (batch,) = collected(collector)

    keys = batch.keys(include_nested=True, leaves_only=True)
    written = {key if isinstance(key, str) else ".".join(key) for key in keys}
    assert promised.reads == frozenset()
    # torchrl's collector adds its own numbering of episodes, which nobody here reads.
    assert promised.writes == written - {"collector.traj_ids"}


def test_the_same_seed_gives_the_same_steps_whatever_else_is_drawn():
    (first,) = collected(make(seed=1))
    torch.manual_seed(5)
    before = torch.get_rng_state()
    (again,) = collected(make(seed=1))

    assert torch.equal(first["observation"], again["observation"])
    assert torch.equal(first["action"], again["action"])
    assert torch.equal(torch.get_rng_state(), before)


def test_every_batch_has_draws_of_its_own():
    first, second, third = (batch["action"] for batch in collected(make(), batches=3))

    # The start policy hardly looks at what it sees: the same draws would be the same actions.
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)


def test_another_seed_gives_other_steps():
    (first,), (other,) = collected(make(seed=1)), collected(make(seed=2))

    assert not torch.equal(first["action"], other["action"])


def test_the_recorded_log_probs_are_the_policys():
    collector = make()
    (batch,) = collected(collector)

    logits = collector.policy(batch.select("observation"))["logits"]

    chosen = logits.log_softmax(-1).gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(batch["action_log_prob"], chosen)


def test_a_resumed_collector_starts_other_episodes_than_the_first_ones():
    state = make()
    (first,) = collected(state)
    resumed = make()
    resumed.load_run_state(state.run_state())

    (after,) = collected(resumed)

    assert resumed.frames == 80
    assert not torch.equal(after["observation"][:, 0], first["observation"][:, 0])


def test_every_place_to_resume_at_has_episodes_of_its_own():
    collector, seeds = make(), []
    collector.environment.set_seed = seeds.append

    for frames in range(0, 4000, 40):
        collector.load_run_state({"frames": frames})

    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)  # what gymnasium takes


def test_no_steps_are_refused():
    with pytest.raises(ConfigError, match="num_steps is 0"):
        make(num_steps=0)

import pytest
import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import Compose, GymEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv

from components.collector.steps import StepCollector
from components.environment.control import Pendulum, gymnasium_environment
from components.exploration import GaussianExploration
from rlcomp.checkpoint.state import collect, restore
from rlcomp.errors import ConfigError
from rlcomp.metrics import recording
from rlcomp.model.continuous_control import gaussian_actor
from rlcomp.run.check_flow import built_flow
from rlcomp.run.stages import Nothing
from rlcomp.seed import seeded


def make(seed=0, num_steps=5, environment=None, exploration=None, max_steps=200):
    with seeded(seed, "environment"):
        environment = environment or Pendulum(num_envs=2, max_steps=max_steps)
    with seeded(seed, "actor"):
        policy = gaussian_actor(environment=environment, num_cells=[4], inputs=["observation"])
    with seeded(seed, "collector"):
        return StepCollector(
            environment=environment,
            policy=policy,
            exploration=exploration or Nothing(),
            num_steps=num_steps,
        )


def test_episodes_go_on_in_the_next_batch():
    collector = make(num_steps=3)

    first, second = collector(), collector()

    assert first.batch_size == (2, 3)
    assert torch.equal(first["next", "observation"][:, -1], second["observation"][:, 0])
    assert second["next", "step_count"][..., 0].tolist() == [[4, 5, 6], [4, 5, 6]]


def test_the_name_of_an_environment_is_none():
    policy = make().policy

    with pytest.raises(ConfigError, match=r"environment is 'x': must be a EnvBase"):
        StepCollector(environment="x", policy=policy, exploration=Nothing(), num_steps=1)


def test_only_ended_episodes_are_recorded():
    collector = make(num_steps=5, max_steps=2)

    with recording() as ledger:
        batch = collector()

    # Episodes of two steps: the second and the fourth of five end one, in both copies.
    returns = batch["next", "reward"][..., 0][:, :4].view(2, 2, 2).sum(-1)
    means = ledger.means()
    assert means["episode/return"] == pytest.approx(float(returns.mean()), abs=1e-5)
    assert (means["episode/length"], means["collector/frames"]) == (2.0, 10.0)


def test_what_it_writes_is_known_before_the_first_step():
    collector = make()

    promised = built_flow(collector)
    keys = collector().keys(include_nested=True, leaves_only=True)

    written = {key if isinstance(key, str) else ".".join(key) for key in keys}
    assert promised.fresh
    assert not promised.reads
    assert promised.writes <= written


def test_the_global_generator_is_left_alone():
    collector = make()
    before = torch.get_rng_state()

    collector()

    assert torch.equal(torch.get_rng_state(), before)


def test_it_goes_on_to_the_bit_from_a_saved_state(tmp_path):
    whole = make(max_steps=4)
    whole()
    tensors, state = collect({"environment": whole.environment, "collector": whole})
    resumed = make(seed=7, max_steps=4)
    nodes = {"environment": resumed.environment, "collector": resumed}
    restore(tmp_path, nodes, tensors, state, keep_generators=False)

    expected, again = whole(), resumed()

    for key in ("observation", "action", "trajectory", ("next", "reward"), ("next", "step_count")):
        assert torch.equal(expected[key], again[key]), key


def test_collectors_that_share_an_environment_each_start_new_episodes():
    first = make(num_steps=3)
    second = make(num_steps=2, environment=first.environment)
    first()

    batch = second()

    assert batch["step_count"][..., 0].tolist() == [[0, 1], [0, 1]]


def test_gymnasium_goes_on_with_new_episodes():
    with seeded(0, "environment"):
        environment = gymnasium_environment(name="Pendulum-v1", num_envs=2)
    collector = make(environment=environment)
    first = collector()
    assert collector()["step_count"][0, 0, 0] == 5
    collector.load_run_state(collector.run_state())

    after = collector()

    assert after["step_count"][:, 0, 0].tolist() == [0, 0]
    assert not torch.equal(after["observation"][:, 0], first["observation"][:, 0])


def test_exploration_changes_what_is_done():
    with seeded(0, "environment"):
        environment = Pendulum(num_envs=2)
    noise = GaussianExploration(environment=environment, scale=0.5)
    plain, noisy = make(), make(environment=environment, exploration=noise)

    assert not torch.equal(plain()["action"], noisy()["action"])


def test_what_a_policy_draws_is_the_node_s_own_and_goes_on():
    draw = TensorDictModule(
        lambda seen: torch.rand(2, 1) - 0.5, in_keys=["observation"], out_keys=["action"]
    )
    made = [make(), make()]
    first, again = ([], [])
    for number, (collector, found) in enumerate(zip(made, (first, again), strict=True)):
        collector.policy = draw
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number)  # whatever others have drawn
            found.extend(collector()["action"] for _ in range(2))

    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(first[0], first[1])


def gymnasium_copies(kind):
    """Two copies, in one environment of gymnasium or as two of torchrl."""
    with seeded(0, "environment"):
        if kind == "vector":
            return gymnasium_environment(name="Pendulum-v1", num_envs=2)
        copies = SerialEnv(2, lambda: GymEnv("Pendulum-v1"))
        copies.reset()  # only then its copies are there
        return TransformedEnv(copies, Compose(RewardSum(), StepCounter()))


@pytest.mark.parametrize("kind", ["vector", "serial"])
def test_a_place_to_resume_at_has_episodes_of_its_own_for_each_copy(kind):
    def resumed(frames, seed=0):
        collector = make(seed, environment=gymnasium_copies(kind))
        if frames:
            collector.load_run_state({"frames": frames})
        return collector()["observation"][:, 0]

    first, other = resumed(10), resumed(20)

    assert torch.equal(first, resumed(10))
    assert not torch.equal(first, other)
    assert not torch.equal(first, resumed(0))
    assert not torch.equal(first, resumed(10, seed=1))
    assert not torch.equal(first[0], first[1])


def test_seeds_of_resumed_environments_have_31_bits():
    collector, seeds = make(environment=gymnasium_copies("vector")), []
    collector.environment.set_seed = seeds.append

    for frames in range(10, 1010, 10):
        collector.load_run_state({"frames": frames})

    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)
    # All of them: as many are small as large.
    assert 25 < sum(seed < 2**30 for seed in seeds) < 75


def test_an_environment_that_goes_on_by_itself_keeps_its_seed():
    collector, seeds = make(), []
    collector.environment.set_seed = seeds.append

    collector.load_run_state({"frames": 10})

    assert seeds == []


def test_no_steps_are_refused():
    with pytest.raises(ConfigError, match="num_steps is 0"):
        make(num_steps=0)

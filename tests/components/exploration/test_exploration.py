import pytest
import torch
from tensordict import TensorDict

from components.environment.control import CartPole, Pendulum
from components.exploration import EpsilonGreedy, ExpertMixture, GaussianExploration
from rlcomp.component import Component
from rlcomp.metrics import recording
from rlcomp.testing import make_batch


def actions(action):
    return make_batch(action=action)


def test_noise_has_its_scale_in_halves_of_the_range():
    noise = GaussianExploration(environment=Pendulum(num_envs=1), scale=0.1)

    moved = noise(actions(torch.zeros(20_000, 1)))["action"]

    # Half of [-2, 2] is 2: a standard deviation of .2, whose estimate has one of .2 / sqrt(40,000).
    assert float(moved.std()) == pytest.approx(0.2, abs=0.005)
    assert abs(float(moved.mean())) < 0.007  # 5 standard errors


def test_actions_stay_within_their_bounds():
    noise = GaussianExploration(environment=Pendulum(num_envs=1), scale=1.0)

    moved = noise(actions(torch.full((1000, 1), 1.9)))["action"]

    assert float(moved.max()) == 2.0
    assert float(moved.min()) >= -2.0


@pytest.mark.parametrize(
    ("progress", "epsilon"),
    # .8 -> .2 over half of the phase: at a quarter half-way, then .2.
    [(0.25, 0.5), (0.5, 0.2), (0.9, 0.2)],
)
def test_epsilon_falls_over_a_part_of_the_phase(progress, epsilon):
    part = EpsilonGreedy(environment=CartPole(num_envs=1), start=0.8, end=0.2, fraction=0.5)

    with recording(progress=progress) as ledger:
        part(actions(torch.ones(4, dtype=torch.int64)))

    assert ledger.means()["exploration/epsilon"] == pytest.approx(epsilon)


def test_so_many_actions_are_drawn():
    part = EpsilonGreedy(environment=CartPole(num_envs=1), start=0.4, end=0.4, fraction=1.0)

    with recording(progress=0.5):
        moved = part(actions(torch.ones(20_000, dtype=torch.int64)))["action"]

    # Of .4 that are drawn, half are the other action: .2, standard error .0028.
    assert float((moved == 0).float().mean()) == pytest.approx(0.2, abs=0.014)


def test_without_epsilon_nothing_changes():
    part = EpsilonGreedy(environment=CartPole(num_envs=1), start=0.0, end=0.0, fraction=0.0)

    with recording(progress=0.5):
        moved = part(actions(torch.ones(100, dtype=torch.int64)))["action"]

    assert moved.tolist() == [1] * 100


class Always(Component):
    """Always the action 1."""

    reads = ("observation",)
    writes = ("action",)

    def forward(self, batch):
        batch["action"] = torch.ones(batch.shape[0], 1)
        return batch


@pytest.mark.parametrize(
    ("round_", "beta"),
    # decay .5: 1, .5, .25
    [(3, 1.0), (4, 0.5), (5, 0.25)],
)
def test_the_expert_acts_less_in_each_round_of_the_phase(round_, beta):
    part = ExpertMixture(expert=Always(), decay=0.5)
    seen = {"observation": torch.zeros(20_000, 1), "action": torch.zeros(20_000, 1)}
    with recording(step=3):
        part.begin_phase()

    with recording(step=round_) as ledger:
        mixed = part(TensorDict(seen, batch_size=[20_000]))["action"]

    assert ledger.means()["exploration/beta"] == beta
    # Standard error at most .0035.
    assert float(mixed.mean()) == pytest.approx(beta, abs=0.018)


def test_an_action_is_the_experts_as_a_whole():
    class Pair(Always):
        def forward(self, batch):
            batch["action"] = torch.ones(batch.shape[0], 2)
            return batch

    seen = {"observation": torch.zeros(200, 1), "action": torch.zeros(200, 2)}
    part = ExpertMixture(expert=Pair(), decay=0.5)
    with recording(step=1):
        mixed = part(TensorDict(seen, batch_size=[200]))["action"]

    assert torch.equal(mixed[:, 0], mixed[:, 1])
    assert 0 < float(mixed.mean()) < 1


def test_without_decay_only_the_first_round_is_the_experts():
    part = ExpertMixture(expert=Always(), decay=0.0)
    means = []
    for round_ in range(3):
        with recording(step=round_):
            seen = {"observation": torch.zeros(9, 1), "action": torch.zeros(9, 1)}
            means.append(float(part(TensorDict(seen, batch_size=[9]))["action"].mean()))

    assert means == [1.0, 0.0, 0.0]

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

from components.environment.control import control_environment
from components.evaluator.episodes import ShiftedDynamics
from components.worlds.point_maze.reach import Reach
from rlcomp.errors import ConfigError
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.metrics import recording


class Pays(BatchedEnvironment):
    """Pays ``wage`` a step in copies that began above 0, and half of it in the others."""

    size, observed, action, wage = 1, 1, (-1.0, 1.0), 2.0
    dynamics_names = ("wage",)

    def begin(self):
        return torch.tensor([[1.0], [-1.0]])

    def advance(self, state, action):
        share = torch.where(state[:, 0] > 0, 1.0, 0.5)
        return state, self.dynamics["wage"] * share, torch.zeros(2, dtype=torch.bool)

    def observe(self, state):
        return state.clone()


def still(size):
    return TensorDictModule(
        lambda seen: torch.zeros(*seen.shape[:-1], size),
        in_keys=["observation"],
        out_keys=["action"],
    )


def evaluator(environment, shifts, size=1, max_steps=3):
    return ShiftedDynamics(
        environment=environment, policy=still(size), max_steps=max_steps, shifts=shifts
    )


def test_the_gap_of_each_shift_is_recorded_by_name():
    environment = Pays(num_envs=2, max_steps=3)
    result = evaluator(environment, {"poor": {"wage": 1.0}, "rich": {"wage": 10.0}})
    with recording() as ledger:
        result(TensorDict({}, batch_size=[]))

    # Three steps of 2 and of 1: (6 + 3) / 2; a wage of 1 pays half of it, 10 five times.
    assert ledger.means() == {
        "evaluation/return": 4.5,
        "evaluation/return@poor": 2.25,
        "evaluation/gap@poor": 2.25,
        "evaluation/return@rich": 22.5,
        "evaluation/gap@rich": -18.0,
    }
    assert environment.dynamics == {"wage": 2.0}


def test_every_shift_has_the_same_starts():
    environment = Reach(num_envs=5, max_steps=4, stride=0.1, radius=0.5)
    result = evaluator(environment, {"same": {"stride": 0.1}}, size=2)
    with recording() as ledger:
        result(TensorDict({}, batch_size=[]))

    assert ledger.means()["evaluation/gap@same"] == 0.0


def test_an_unknown_parameter_is_refused_when_it_is_built():
    environment = Reach(num_envs=5, max_steps=4, stride=0.1, radius=0.5)

    with pytest.raises(ConfigError, match=r"Reach has no parameter 'mass'"):
        evaluator(environment, {"heavy": {"mass": 3.0}})


def test_gymnasiums_dynamics_are_refused():
    environment = control_environment(name="Acrobot-v1", num_envs=1)

    with pytest.raises(ConfigError, match=r"dynamics cannot be set: take one of"):
        evaluator(environment, {"heavy": {"mass": 3.0}})


def test_no_shift_at_all_is_refused():
    with pytest.raises(ConfigError, match="shifts"):
        evaluator(Pays(num_envs=2, max_steps=3), {})

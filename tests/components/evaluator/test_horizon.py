import pytest
import torch
from tensordict.nn import TensorDictModule

from components.evaluator.episodes import HorizonCost
from rlcomp.interfaces.batched_environment import BatchedEnvironment
from rlcomp.metrics import recording
from rlcomp.seed import seeded

EPSILON = 0.05


class Cliff(BatchedEnvironment):
    """A chain beside a cliff: whoever errs (probability epsilon a step) falls.

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

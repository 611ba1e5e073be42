"""GAE for each objective. Two rows of 2 and 1 response tokens behind one of the prompt."""

import pytest
import torch
from tensordict import TensorDict

from components.advantage.gae import GAE, VAPO
from components.advantage.group import GroupMean
from components.advantage.per_objective import PerObjectiveAdvantage, PerObjectiveCriticAdvantage
from components.advantage.reweighted import Noon
from components.pareto.gradients import PAMA
from components.pareto.scalarisation import LinearScalarisation
from rlcomp.errors import ConfigError, ShapeError
from rlcomp.metrics import recording
from rlcomp.testing import check_component, make_batch

NAN = float("nan")


def estimator():
    return GAE(gamma=1.0, gae_lambda=0.5, whiten=False)


def part(advantage=None, aggregator=None, scale="none"):
    aggregator = aggregator or LinearScalarisation(weights={"a": 1.0, "b": 0.5})
    return PerObjectiveCriticAdvantage(
        advantage=advantage or estimator(), aggregator=aggregator, scale=scale
    )


def rows(a=(1.0, 0.0), b=(0.0, 2.0)):
    values_a = [[NAN, 0.5, 0.25], [NAN, 0.5, NAN]]
    values_b = [[NAN, 1.0, 0.0], [NAN, 0.5, NAN]]
    rewards = {"a": torch.tensor(a), "b": torch.tensor(b)}
    return make_batch(
        rewards=TensorDict(rewards, batch_size=[2]),
        reward_valid=torch.ones(2, dtype=torch.bool),
        reward=torch.full((2,), 77.0),
        truncated=torch.zeros(2, dtype=torch.bool),
        response_mask=torch.tensor([[0, 1, 1], [0, 1, 0]]).bool(),
        objective_values=torch.stack([torch.tensor(values_a), torch.tensor(values_b)], 2),
    )


# a, row 1: d2 = 1 - .25, d1 = .25 - .5, A1 = -.25 + .5 x .75; row 2: 0 - .5.
# b, row 1: d2 = 0, d1 = 0 - 1; row 2: 2 - .5.
OF_A = [[0.0, 0.125, 0.75], [0.0, -0.5, 0.0]]
OF_B = [[0.0, -1.0, 0.0], [0.0, 1.5, 0.0]]


@pytest.mark.parametrize(
    ("advantage", "aggregator", "scale"),
    [
        (estimator(), LinearScalarisation(weights=None), "running"),
        (Noon(advantage=estimator()), PAMA(mode="scalar"), "none"),
        (Noon(advantage=estimator()), PAMA(mode="vector"), "running"),
    ],
)
def test_it_keeps_the_contract(advantage, aggregator, scale):
    check_component(part(advantage, aggregator, scale))


def test_each_objective_has_its_own_value_and_return():
    result = part()(rows())

    assert result["advantages"][..., 0].tolist() == OF_A
    assert result["advantages"][..., 1].tolist() == OF_B
    # A + V.
    assert result["objective_returns"][..., 0].tolist() == [[0, 0.625, 1], [0, 0, 0]]
    assert result["objective_returns"][..., 1].tolist() == [[0, 0, 0], [0, 2, 0]]
    assert result["advantage"].tolist() == [[0, -0.375, 0.75], [0, 0.25, 0]]


def test_value_and_token_reward_of_the_batch_are_not_used():
    batch = rows()
    batch["value"] = torch.full((2, 3), 9.0)
    batch["token_reward"] = torch.full((2, 3), 9.0)

    result = part()(batch)

    assert result["advantages"][..., 0].tolist() == OF_A
    assert result["value"].tolist() == [[9.0] * 3] * 2


def test_pama_of_the_paper_trains_the_objective_that_gains_least():
    # Noon: a .125 and .75, b 1.5, over the same three tokens: .875 / 3 is less than 1.5 / 3.
    with recording() as ledger:
        result = part(Noon(advantage=estimator()), PAMA(mode="scalar"))(rows())

    assert result["advantage"].tolist() == [[0, 0.125, 0.75], [0, 0, 0]]
    assert ledger.means()["pareto/advantage/weight/a"] == 1
    assert ledger.means()["pareto/advantage/weight/b"] == 0
    # The critic learns from what Noon cuts away as well.
    assert result["objective_returns"][0, 1, 1] == 0


def test_a_missing_objective_of_a_row_trains_neither_policy_nor_critic():
    result = part()(rows(b=(NAN, 2.0)))

    assert result["advantages"][0, :, 1].tolist() == [0, 0, 0]
    assert result["objective_present"].tolist() == [[True, False], [True, True]]
    assert result["objective_returns"][1, :, 1].tolist() == [0, 2, 0]


def test_scaling_an_objective_and_its_values_scales_its_advantages():
    batch = rows(b=(0.0, 6.0))
    batch["objective_values"] = batch["objective_values"] * torch.tensor([1.0, 3.0])

    assert part()(batch)["advantages"][..., 1].tolist() == [[0, -3, 0], [0, 4.5, 0]]


def test_as_many_values_as_objectives_are_needed():
    batch = rows()
    batch["objective_values"] = batch["objective_values"][..., :1]

    with pytest.raises(ShapeError, match=r"\[2, 3, 1\], but 'rewards' holds 2 objectives"):
        part()(batch)


def test_an_estimator_without_returns_is_refused():
    with pytest.raises(ConfigError, match=r"GroupMean, .*no returns .*gae_unwhitened"):
        part(GroupMean())


@pytest.mark.parametrize("whitened", [GAE(), VAPO(), Noon(advantage=GAE())])
def test_an_estimator_that_whitens_is_refused(whitened):
    with pytest.raises(ConfigError, match=r"with whiten=True: .*=gae_unwhitened"):
        part(whitened)


def test_without_values_an_estimator_that_needs_them_is_sent_here():
    with pytest.raises(ConfigError, match="advantage=per_objective_critic"):
        PerObjectiveAdvantage(
            advantage=GAE(), aggregator=LinearScalarisation(weights=None), scale="none"
        )

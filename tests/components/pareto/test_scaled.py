import pytest
import torch

from components.pareto.gradients import MGDA, PAMA
from components.pareto.scalarisation import (
    Chebyshev,
    LinearScalarisation,
    PreferenceWeights,
    ScaledObjectives,
)
from rlcomp.errors import ConfigError
from rlcomp.pareto.aggregator import Objectives

ROWS = [[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]


def test_a_factor_multiplies_the_weight_it_is_given(shown):
    # The factors by name, whatever their order: 0.25 * 2 and 0.75 * 3.
    part = ScaledObjectives(
        aggregator=LinearScalarisation(weights={"a": 0.25, "b": 0.75}), scales={"b": 3.0, "a": 2.0}
    )

    assert part.weigh(shown(ROWS)).tolist() == [0.5, 2.25]


def test_the_aggregator_is_shown_the_objectives_in_these_units(shown):
    # Means 1 and 2 / 3: scalar PAMA takes the second. Half the first is the smaller: 1 * 0.5.
    halved = ScaledObjectives(aggregator=PAMA(mode="scalar"), scales={"a": 0.5, "b": 1.0})
    # [[5, 2], [2, 2]] becomes [[20, 12], [12, 18]]: c1 = (18 - 12) / (20 + 18 - 24) = 3 / 7 of the
    # factor 2, and 4 / 7 of the factor 3.
    vector = ScaledObjectives(aggregator=MGDA(row_norm="none"), scales={"a": 2.0, "b": 3.0})

    assert halved.weigh(shown(ROWS)).tolist() == [0.5, 0.0]
    assert vector.weigh(shown(ROWS)).tolist() == pytest.approx([6 / 7, 12 / 7])


def test_weights_row_by_row_are_multiplied_as_well(shown):
    plain = shown(ROWS)
    wanted = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]], dtype=torch.float64)
    asked = Objectives(plain.names, plain.returns, plain.means, plain.gram, preference=wanted)

    weights = ScaledObjectives(aggregator=PreferenceWeights(), scales={"a": 2.0, "b": 4.0}).weigh(
        asked
    )

    assert weights.tolist() == [[2.0, 0.0], [1.0, 2.0], [0.5, 3.0]]


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"a": 1.0, "b": 1.0, "bb": 1.0}, "scales names 'bb'; did you mean 'b'"),
        ({"a": 1.0}, "the objective 'b' is not in scales"),
    ],
)
def test_factors_must_name_the_objectives(scales, message, shown):
    part = ScaledObjectives(aggregator=PAMA(mode="vector"), scales=scales)

    with pytest.raises(ConfigError, match=message):
        part.check(("a", "b"))
    with pytest.raises(ConfigError, match=message):
        part.weigh(shown(ROWS))


def test_the_aggregator_is_checked_too():
    part = ScaledObjectives(
        aggregator=LinearScalarisation(weights={"c": 1.0}), scales={"a": 1.0, "b": 1.0}
    )

    with pytest.raises(ConfigError, match="weights names 'c'"):
        part.check(("a", "b"))


def test_an_aggregator_of_returns_has_weights_of_its_own():
    within = Chebyshev(weights=None, rho=0.0, delta=0.1, decay=0.9)

    with pytest.raises(ConfigError, match="aggregator is Chebyshev, which weighs by the expected"):
        ScaledObjectives(aggregator=within, scales={"a": 1.0})

import math

import pytest
import torch

from components.pareto.gradients import MGDA, PAMA, LagrangianAggregator
from components.pareto.scalarisation import (
    Chebyshev,
    ExpectedUtility,
    LinearScalarisation,
    PreferenceWeights,
    RandomWeights,
    ScaledObjectives,
    SmoothChebyshev,
)
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.functional.scalarization import smooth_chebyshev_weights
from rlcomp.pareto.aggregator import Objectives, aggregation_weights


def test_linear_weights_are_matched_by_name(make_objectives):
    weights = LinearScalarisation(weights={"b": 3.0, "a": -1.0}).weigh(
        make_objectives(torch.eye(2))
    )

    assert weights.tolist() == [-1.0, 3.0]


def test_linear_weights_are_equal_by_default(make_objectives):
    assert (
        LinearScalarisation(weights=None).weigh(make_objectives(torch.eye(4))).tolist()
        == [0.25] * 4
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": 1.0, "b": 1.0, "bb": 1.0}, "weights names 'bb'; did you mean 'b'"),
        ({"a": 1.0}, "the objective 'b' is not in weights"),
    ],
)
def test_linear_weights_must_name_the_objectives(weights, message, make_objectives):
    with pytest.raises(ConfigError, match=message):
        LinearScalarisation(weights=weights).weigh(make_objectives(torch.eye(2)))


def test_empty_linear_weights_raise():
    with pytest.raises(ConfigError, match="weights is empty"):
        LinearScalarisation(weights={})


def test_random_weights_are_on_the_simplex_and_use_the_own_generator(make_objectives):
    part, objectives = RandomWeights(), make_objectives(torch.eye(3))
    state, outside = part.generator.get_state(), torch.get_rng_state()

    first, second = part.weigh(objectives), part.weigh(objectives)

    assert float(first.sum()) == pytest.approx(1)
    assert float(first.min()) > 0
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), outside)
    part.generator.set_state(state)
    assert torch.equal(part.weigh(objectives), first)


ZEROS = torch.zeros(2, dtype=torch.float64)


def with_preference(names=("right", "short"), preference=None):
    return Objectives(names, ZEROS, ZEROS, torch.eye(2, dtype=torch.float64), preference)


def test_preference_weights_are_those_of_each_row():
    preference = torch.tensor([[0.25, 0.75], [1.0, 0.0]])

    weights = aggregation_weights(PreferenceWeights(), with_preference(preference=preference))

    assert weights.tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert weights.dtype == torch.float64


def test_missing_preferences_raise_with_a_remedy():
    with pytest.raises(ConfigError, match="conditioning=text_prefix"):
        PreferenceWeights().weigh(with_preference())


def test_preferences_over_another_number_of_objectives_raise():
    with pytest.raises(
        ConfigError, match=r"3 weights, but there are 2 objectives \(right, short\)"
    ):
        PreferenceWeights().weigh(with_preference(preference=torch.ones(1, 3) / 3))


ROWS = [[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]


def test_a_scale_multiplies_the_weight(make_objectives):
    # The factors by name, whatever their order: 0.25 * 2 and 0.75 * 3.
    part = ScaledObjectives(
        aggregator=LinearScalarisation(weights={"a": 0.25, "b": 0.75}), scales={"b": 3.0, "a": 2.0}
    )

    assert part.weigh(make_objectives(ROWS)).tolist() == [0.5, 2.25]


def test_the_inner_aggregator_receives_scaled_objectives(make_objectives):
    # Means 1 and 2 / 3: scalar PAMA takes the second. Half the first is the smaller: 1 * 0.5.
    halved = ScaledObjectives(aggregator=PAMA(mode="scalar"), scales={"a": 0.5, "b": 1.0})
    # [[5, 2], [2, 2]] becomes [[20, 12], [12, 18]]: c1 = (18 - 12) / (20 + 18 - 24) = 3 / 7 of the
    # factor 2, and 4 / 7 of the factor 3.
    vector = ScaledObjectives(aggregator=MGDA(row_norm="none"), scales={"a": 2.0, "b": 3.0})

    assert halved.weigh(make_objectives(ROWS)).tolist() == [0.5, 0.0]
    assert vector.weigh(make_objectives(ROWS)).tolist() == pytest.approx([6 / 7, 12 / 7])


def test_weights_by_row_are_scaled(make_objectives):
    plain = make_objectives(ROWS)
    preference = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]], dtype=torch.float64)
    objectives = Objectives(
        plain.names, plain.returns, plain.means, plain.gram, preference=preference
    )

    weights = ScaledObjectives(aggregator=PreferenceWeights(), scales={"a": 2.0, "b": 4.0}).weigh(
        objectives
    )

    assert weights.tolist() == [[2.0, 0.0], [1.0, 2.0], [0.5, 3.0]]


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"a": 1.0, "b": 1.0, "bb": 1.0}, "scales names 'bb'; did you mean 'b'"),
        ({"a": 1.0}, "the objective 'b' is not in scales"),
    ],
)
def test_scales_must_name_the_objectives(scales, message, make_objectives):
    part = ScaledObjectives(aggregator=PAMA(mode="vector"), scales=scales)

    with pytest.raises(ConfigError, match=message):
        part.check(("a", "b"))
    with pytest.raises(ConfigError, match=message):
        part.weigh(make_objectives(ROWS))


def test_the_inner_aggregator_is_checked():
    part = ScaledObjectives(
        aggregator=LinearScalarisation(weights={"c": 1.0}), scales={"a": 1.0, "b": 1.0}
    )

    with pytest.raises(ConfigError, match="weights names 'c'"):
        part.check(("a", "b"))


def test_scales_of_an_aggregator_on_returns_raise():
    inner = Chebyshev(weights=None, rho=0.0, delta=0.1, decay=0.9)

    with pytest.raises(ConfigError, match="aggregator is Chebyshev, which weighs by the expected"):
        ScaledObjectives(aggregator=inner, scales={"a": 1.0})


NAN = float("nan")


def chebyshev(**changed):
    arguments = {"weights": None, "rho": 0.0, "delta": 0.0, "decay": 0.0}
    return Chebyshev(**{**arguments, **changed})


def test_chebyshev_weighs_the_objective_furthest_below_its_best(make_objectives):
    part = chebyshev(rho=0.1)
    part.weigh(make_objectives(torch.eye(2), [3.0, 1.0]))

    weights = part.weigh(make_objectives(torch.eye(2), [2.5, 0.0]))

    # Behind by 0.5 and 1, of weight 1/2 each.
    torch.testing.assert_close(weights, torch.tensor([0.05, 0.55]).double())


def test_chebyshev_at_the_best_returns_depends_on_weights_and_delta(make_objectives):
    part = chebyshev(weights={"a": 1.0, "b": 3.0}, delta=0.5)

    assert part.weigh(make_objectives(torch.eye(2), [0.0, 9.0])).tolist() == [0.0, 3.0]


def test_expected_returns_are_running_means(make_objectives):
    # a: 1, then 0.9 + 0 = 0.9: behind by 0.1. b: 1, then 0.9 + 0.07 = 0.97.
    part = SmoothChebyshev(weights=None, mu=0.05, delta=0.0, decay=0.9)
    part.weigh(make_objectives(torch.eye(2), [1.0, 1.0]))

    weights = part.weigh(make_objectives(torch.eye(2), [0.0, 0.7]))

    half = torch.tensor([0.5, 0.5]).double()
    returns = torch.tensor([0.9, 0.97]).double()
    expected = smooth_chebyshev_weights(returns, torch.ones(2).double(), half, 0.05)
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize(
    "part", [chebyshev(), SmoothChebyshev(weights=None, mu=0.1, delta=0.0, decay=0.5)]
)
def test_an_objective_without_data_has_weight_0_and_a_missing_one_keeps_its_mean(
    part, make_objectives
):
    first = part.weigh(make_objectives(torch.eye(2), [1.0, NAN]))
    part.weigh(make_objectives(torch.eye(2), [0.0, 5.0]))

    again = part.weigh(make_objectives(torch.eye(2), [NAN, 5.0]))

    assert first.tolist() == [0.5, 0.0]
    assert again[0] > again[1]


@pytest.mark.parametrize(
    "part", [chebyshev(), SmoothChebyshev(weights=None, mu=1, delta=0, decay=0)]
)
def test_running_means_are_restored_from_a_checkpoint(part, make_objectives):
    part.weigh(make_objectives(torch.eye(2), [4.0, 1.0]))
    states = part.returns.run_state(), part.best.run_state()
    expected = part.weigh(make_objectives(torch.eye(2), [3.0, 1.0]))

    part.returns.load_run_state(states[0])
    part.best.load_run_state(states[1])

    assert torch.equal(part.weigh(make_objectives(torch.eye(2), [3.0, 1.0])), expected)


def test_expected_utility_weights_are_its_gradient(make_objectives):
    # g = J_a J_b at (2, 3): dg/dJ = (3, 2).
    part = ExpectedUtility(function=torch.prod, decay=0.0)

    with torch.no_grad():
        weights = part.weigh(make_objectives(torch.eye(2), [2.0, 3.0]))

    assert weights.tolist() == [3.0, 2.0]


def test_expected_utility_has_equal_weights_until_every_objective_has_data(make_objectives):
    part = ExpectedUtility(function=torch.prod, decay=0.0)

    assert part.weigh(make_objectives(torch.eye(2), [2.0, NAN])).tolist() == [0.5, 0.5]
    assert part.weigh(make_objectives(torch.eye(2), [NAN, 3.0])).tolist() == [3.0, 2.0]


@pytest.mark.parametrize("function", [torch.square, lambda returns: torch.tensor(1.0)])
def test_a_utility_without_one_number_or_a_gradient_raises(function, make_objectives):
    with pytest.raises(ConfigError, match="one number that depends"):
        ExpectedUtility(function=function, decay=0.0).weigh(
            make_objectives(torch.eye(2), [2.0, 3.0])
        )


def test_a_utility_gradient_that_is_not_finite_raises_with_the_returns(make_objectives):
    part = ExpectedUtility(function=lambda returns: returns.sqrt().sum(), decay=0.0)

    with pytest.raises(NumericalError, match=r"'a': 0\.0"):
        part.weigh(make_objectives(torch.eye(2), [0.0, 3.0]))


def test_smooth_chebyshev_at_the_best_returns_depends_on_weights_and_delta(make_objectives):
    # At the best so far, both behind by delta: 1 * 0.5 and 3 * 0.5, softmax (1, e) / (1 + e).
    part = SmoothChebyshev(weights={"a": 1.0, "b": 3.0}, mu=1.0, delta=0.5, decay=0.0)

    weights = part.weigh(make_objectives(torch.eye(2), [7.0, -2.0]))

    e = math.e
    torch.testing.assert_close(weights, torch.tensor([1 / (1 + e), 3 * e / (1 + e)]).double())


@pytest.mark.parametrize(
    "part",
    [
        chebyshev(),
        SmoothChebyshev(weights=None, mu=1.0, delta=0.0, decay=0.0),
        ExpectedUtility(function=torch.prod, decay=0.0),
        LagrangianAggregator(maximise="a", thresholds={"b": 1.0}, step=1.0),
    ],
)
def test_weights_of_expected_returns_are_in_reward_units(part):
    assert part.reward_units
    assert not LinearScalarisation(weights=None).reward_units

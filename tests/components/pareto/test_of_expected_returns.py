import math

import pytest
import torch

from components.pareto.gradients import LagrangianAggregator
from components.pareto.scalarisation import (
    Chebyshev,
    ExpectedUtility,
    LinearScalarisation,
    SmoothChebyshev,
)
from rlcomp.errors import ConfigError, NumericalError
from rlcomp.functional.scalarization import smooth_chebyshev_weights

NAN = float("nan")


def chebyshev(**changed):
    given = {"weights": None, "rho": 0.0, "delta": 0.0, "decay": 0.0}
    return Chebyshev(**{**given, **changed})


def test_the_objective_that_fell_the_furthest_below_its_best_is_trained(shown):
    part = chebyshev(rho=0.1)
    part.weigh(shown(torch.eye(2), [3.0, 1.0]))

    weights = part.weigh(shown(torch.eye(2), [2.5, 0.0]))

    # Behind by 0.5 and 1, of weight 1/2 each.
    torch.testing.assert_close(weights, torch.tensor([0.05, 0.55]).double())


def test_at_the_best_so_far_the_factors_and_delta_decide(shown):
    part = chebyshev(weights={"a": 1.0, "b": 3.0}, delta=0.5)

    assert part.weigh(shown(torch.eye(2), [0.0, 9.0])).tolist() == [0.0, 3.0]


def test_the_expected_return_is_a_running_mean_not_the_last_batch(shown):
    # a: 1, then 0.9 + 0 = 0.9: behind by 0.1. b: 1, then 0.9 + 0.07 = 0.97.
    part = SmoothChebyshev(weights=None, mu=0.05, delta=0.0, decay=0.9)
    part.weigh(shown(torch.eye(2), [1.0, 1.0]))

    weights = part.weigh(shown(torch.eye(2), [0.0, 0.7]))

    half = torch.tensor([0.5, 0.5]).double()
    behind = torch.tensor([0.9, 0.97]).double()
    wanted = smooth_chebyshev_weights(behind, torch.ones(2).double(), half, 0.05)
    torch.testing.assert_close(weights, wanted)


@pytest.mark.parametrize(
    "part", [chebyshev(), SmoothChebyshev(weights=None, mu=0.1, delta=0.0, decay=0.5)]
)
def test_an_objective_never_seen_has_no_weight_and_one_missing_now_keeps_its_mean(part, shown):
    first = part.weigh(shown(torch.eye(2), [1.0, NAN]))
    part.weigh(shown(torch.eye(2), [0.0, 5.0]))

    again = part.weigh(shown(torch.eye(2), [NAN, 5.0]))

    assert first.tolist() == [0.5, 0.0]
    assert again[0] > again[1]


@pytest.mark.parametrize(
    "part", [chebyshev(), SmoothChebyshev(weights=None, mu=1, delta=0, decay=0)]
)
def test_the_running_means_are_part_of_a_checkpoint(part, shown):
    part.weigh(shown(torch.eye(2), [4.0, 1.0]))
    states = part.returns.run_state(), part.best.run_state()
    wanted = part.weigh(shown(torch.eye(2), [3.0, 1.0]))

    part.returns.load_run_state(states[0])
    part.best.load_run_state(states[1])

    assert torch.equal(part.weigh(shown(torch.eye(2), [3.0, 1.0])), wanted)


def test_a_function_of_the_expected_returns_is_not_one_of_each_sample_s(shown):
    # g = J_a J_b at (2, 3): dg/dJ = (3, 2).
    part = ExpectedUtility(function=torch.prod, decay=0.0)

    with torch.no_grad():
        weights = part.weigh(shown(torch.eye(2), [2.0, 3.0]))

    assert weights.tolist() == [3.0, 2.0]


def test_until_all_have_been_seen_the_function_waits(shown):
    part = ExpectedUtility(function=torch.prod, decay=0.0)

    assert part.weigh(shown(torch.eye(2), [2.0, NAN])).tolist() == [0.5, 0.5]
    assert part.weigh(shown(torch.eye(2), [NAN, 3.0])).tolist() == [3.0, 2.0]


@pytest.mark.parametrize("function", [torch.square, lambda returns: torch.tensor(1.0)])
def test_what_is_no_function_of_them_to_a_number_is_refused(function, shown):
    with pytest.raises(ConfigError, match="one number that depends"):
        ExpectedUtility(function=function, decay=0.0).weigh(shown(torch.eye(2), [2.0, 3.0]))


def test_a_gradient_that_is_not_finite_names_where_it_is(shown):
    part = ExpectedUtility(function=lambda returns: returns.sqrt().sum(), decay=0.0)

    with pytest.raises(NumericalError, match=r"'a': 0\.0"):
        part.weigh(shown(torch.eye(2), [0.0, 3.0]))


def test_a_multiplier_is_used_and_then_moved(shown):
    # b is 0.5 below its threshold, 0.1 a unit: 0, 0.05, 0.1; c is above its own.
    part = LagrangianAggregator(maximise="a", thresholds={"c": 0.0, "b": 1.0}, step=0.1)

    seen = [part.weigh(shown(torch.eye(3), [9.0, 0.5, 0.5])).tolist() for _ in range(3)]

    assert [row[0] for row in seen] == [1.0] * 3
    assert [row[1] for row in seen] == pytest.approx([0.0, 0.05, 0.1])
    assert [row[2] for row in seen] == [0.0] * 3
    assert part.state_dict()["multipliers"].tolist() == pytest.approx([0.0, 0.15])


def test_a_batch_without_the_objective_leaves_its_multiplier(shown):
    part = LagrangianAggregator(maximise="a", thresholds={"b": 1.0}, step=1.0)
    part.weigh(shown(torch.eye(2), [0.0, 0.0]))

    part.weigh(shown(torch.eye(2), [0.0, NAN]))

    assert part.multipliers.tolist() == [1.0]


@pytest.mark.parametrize(("thresholds"), [{}, {"a": 1.0}])
def test_there_must_be_a_threshold_and_none_for_what_is_maximised(thresholds):
    with pytest.raises(ConfigError, match="except 'a'"):
        LagrangianAggregator(maximise="a", thresholds=thresholds, step=0.1)


def test_thresholds_must_name_the_other_objectives(shown):
    with pytest.raises(ConfigError, match="names 'bb'; did you mean 'b'"):
        LagrangianAggregator(maximise="a", thresholds={"bb": 1.0}, step=0.1).weigh(
            shown(torch.eye(2))
        )


def test_what_lies_beyond_the_best_counts_by_its_factor(shown):
    # At the best so far, both behind by delta: 1 * 0.5 and 3 * 0.5, softmax (1, e) / (1 + e).
    part = SmoothChebyshev(weights={"a": 1.0, "b": 3.0}, mu=1.0, delta=0.5, decay=0.0)

    weights = part.weigh(shown(torch.eye(2), [7.0, -2.0]))

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
def test_their_weights_are_for_a_unit_of_return(part):
    assert part.of_returns
    assert not LinearScalarisation(weights=None).of_returns


def test_by_itself_a_multiplier_moves_by_a_tenth_of_what_is_missing(shown):
    part = LagrangianAggregator(maximise="a", thresholds={"b": 1.0})

    for returned, multiplier in ((0.0, 0.1), (3.0, 0.0), (-1.0, 0.2)):
        part.weigh(shown(torch.eye(2), [0.0, returned]))
        assert part.multipliers.tolist() == pytest.approx([multiplier])

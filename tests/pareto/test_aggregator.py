import sys
from dataclasses import replace

import pytest
import torch

from rlcomp.errors import NumericalError
from rlcomp.metrics import recording
from rlcomp.pareto.aggregator import Aggregator, GramianAggregator, Objectives, aggregation_weights
from rlcomp.pareto.objectives import objective_statistics


class FixedWeights(Aggregator):
    def __init__(self, *weights):
        super().__init__()
        self.weights = torch.tensor(weights, dtype=torch.float64)

    def weigh(self, objectives):
        return self.weights


def objectives(*vectors, returns=(1.0, float("nan"))):
    rows = torch.tensor(vectors, dtype=torch.float64)
    return Objectives(("a", "b"), torch.tensor(returns).double(), rows.mean(1), rows @ rows.T)


def test_weights_conflicts_and_returns_are_recorded_by_quantity():
    # 3 (1, 0) + (-2, 1) = (1, 1): along a 1, along b -1. v of (1, 0), (-2, 1): c1 = (5 + 2) / 10,
    # v = (0.1, 0.3), |v|^2 = 0.1 of 5.
    with recording() as ledger:
        weights = aggregation_weights(
            FixedWeights(3.0, 1.0), objectives([1.0, 0.0], [-2.0, 1.0]), "gradient"
        )

    assert weights.tolist() == [3.0, 1.0]
    means = ledger.means()
    assert means.pop("pareto/gradient/gap") == pytest.approx(0.02**0.5)
    # (1, 1) and (-2, 1).
    assert means.pop("pareto/gradient/worst_cosine") == pytest.approx(-1 / 10**0.5)
    assert means == {
        "pareto/gradient/weight/a": 3.0,
        "pareto/gradient/weight/b": 1.0,
        "pareto/gradient/conflict/a": 0.0,
        "pareto/gradient/conflict/b": 1.0,
        "pareto/gradient/return/a": 1.0,
    }


def test_the_mean_of_weights_by_row_is_recorded():
    with recording() as ledger:
        aggregation_weights(
            FixedWeights([1.0, 0.0], [0.5, 0.5], [0.75, 0.25]), objectives([1.0, 0.0], [0.0, 1.0])
        )

    means = ledger.means()
    assert (means["pareto/reward/weight/a"], means["pareto/reward/weight/b"]) == (0.75, 0.25)


def test_an_objective_without_a_vector_leaves_the_gap_of_the_others():
    with recording() as ledger:
        aggregation_weights(FixedWeights(1.0, 1.0), objectives([2.0, 0.0], [0.0, 0.0]))
        aggregation_weights(FixedWeights(1.0, 1.0), objectives([0.0, 0.0], [0.0, 0.0]), "advantage")

    assert ledger.means()["pareto/reward/gap"] == 1.0
    assert "pareto/advantage/gap" not in ledger.means()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_vector_that_is_not_finite_names_its_objective(value):
    with pytest.raises(NumericalError, match="'b'"):
        aggregation_weights(FixedWeights(1.0, 1.0), objectives([1.0, 0.0], [value, 0.0]))


@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_an_infinite_return_names_its_objective_before_the_aggregator_runs(value):
    class Refusing(FixedWeights):
        def weigh(self, objectives):
            raise AssertionError("weighed")

    with pytest.raises(NumericalError, match="'b': its mean reward is"):
        aggregation_weights(Refusing(), objectives([1.0, 0.0], [0.0, 1.0], returns=(1.0, value)))


@pytest.mark.parametrize("weights", [(1.0, float("nan")), ([1.0, 0.0], [1.0, float("inf")])])
def test_a_weight_that_is_not_finite_names_its_objective_and_aggregator(weights):
    with pytest.raises(NumericalError, match="'b': the weight that FixedWeights gives it"):
        aggregation_weights(FixedWeights(*weights), objectives([1.0, 0.0], [0.0, 1.0]))


@pytest.mark.parametrize(("along", "conflict"), [(-0.9e-3, 0.0), (-1.1e-3, 1.0), (0.5, 0.0)])
@pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
def test_a_conflict_is_a_cosine_below_minus_a_thousandth_at_any_scale(along, conflict, length):
    # The weights take the first alone, at a cosine of ``along`` with the second.
    second = [length * along, length * (1 - along**2) ** 0.5]

    with recording() as ledger:
        aggregation_weights(FixedWeights(3.0, 0.0), objectives([2.0, 0.0], second))

    means = ledger.means()
    assert means["pareto/reward/conflict/b"] == conflict
    assert means["pareto/reward/conflict/a"] == 0.0
    assert means["pareto/reward/worst_cosine"] == pytest.approx(along)


def test_a_zero_vector_has_no_cosine_and_a_zero_sum_no_conflict():
    with recording() as ledger:
        aggregation_weights(FixedWeights(1.0, 1.0), objectives([1.0, 0.0], [0.0, 0.0]))
        aggregation_weights(
            FixedWeights(1.0, 1.0), objectives([0.1, 0.7], [-0.1, -0.7]), "advantage"
        )

    means = ledger.means()
    assert means["pareto/reward/worst_cosine"] == 1.0
    assert means["pareto/advantage/worst_cosine"] == pytest.approx(0.0, abs=1e-6)
    assert means["pareto/advantage/conflict/a"] == means["pareto/advantage/conflict/b"] == 0.0


def test_more_than_8_objectives_need_no_solver_unless_the_aggregator_does(monkeypatch):
    monkeypatch.setitem(sys.modules, "quadprog", None)
    names, eye = tuple("abcdefghi"), torch.eye(9).double()

    with recording() as ledger:
        aggregation_weights(
            FixedWeights(*[1.0] * 9), Objectives(names, torch.zeros(9), eye.mean(1), eye)
        )

    assert ledger.means()["pareto/reward/worst_cosine"] == pytest.approx(1 / 3)
    assert "pareto/reward/gap" not in ledger.means()


def test_weights_in_reward_units_are_multiplied_by_the_divisors():
    class InRewardUnits(FixedWeights):
        reward_units = True

        def weigh(self, objectives):
            self.objectives = objectives
            return self.weights

    statistics = objectives([1.0, 0.0], [0.0, 1.0])
    statistics = replace(statistics, units=torch.tensor([0.5, 40.0]).double())
    aggregator = InRewardUnits(150.0, 1.5)

    with recording() as ledger:
        weights = aggregation_weights(aggregator, statistics)

    assert weights.tolist() == [75.0, 60.0]
    assert aggregator.objectives.gram.tolist() == [[0.25, 0.0], [0.0, 1600.0]]
    assert aggregator.objectives.means.tolist() == [0.25, 20.0]
    assert ledger.means()["pareto/reward/weight/b"] == 1.5
    assert aggregation_weights(FixedWeights(150.0, 1.5), statistics).tolist() == [150.0, 1.5]


class FixedGramian(GramianAggregator):
    def gram_weights(self, gram):
        assert len(gram) >= 2
        self.gram = gram
        return torch.tensor([0.25, 0.75], dtype=torch.float64)


def statistics(*vectors):
    rewards = torch.zeros(len(vectors[0]), len(vectors))
    return objective_statistics(
        ["a", "b", "c"][: len(vectors)], rewards, torch.tensor(vectors), None
    )


def test_a_single_vector_has_weight_1():
    assert FixedGramian(row_norm="none").weigh(statistics([0.0, 0.0], [1.0, 2.0])).tolist() == [
        0,
        1,
    ]
    assert FixedGramian(row_norm="none").weigh(statistics([0.0], [0.0])).tolist() == [0, 0]


def test_weights_of_unit_vectors_are_scaled_by_the_mean_norm():
    # Norms 1 and 3, mean 2: .25 * 2 / 1 and .75 * 2 / 3.
    weights = FixedGramian(row_norm="unit").weigh(statistics([1.0, 0.0], [0.0, 3.0]))

    # A division of both by sqrt(N) changes nothing.
    assert weights.tolist() == pytest.approx([0.5, 0.5])


def test_products_of_a_single_row_are_not_divided():
    objectives = objective_statistics(
        ["a", "b"], torch.ones(1, 2), torch.tensor([[3.0], [-2.0]]), None
    )

    assert objectives.means.tolist() == [3, -2]
    assert objectives.gram.tolist() == [[9, -6], [-6, 4]]


# The inner products of a and c are 25, 8 and 4, halved (two entries); b is 0.
A, B, C = [3.0, 4.0], [0.0, 0.0], [0.0, 2.0]


def test_unit_row_norm_divides_each_vector_by_its_norm():
    part = FixedGramian(row_norm="unit")

    weights = part.weigh(statistics(A, B, C))

    # Lengths 5 and 2 over sqrt(2), mean 3.5: .25 * 3.5 / 5 and .75 * 3.5 / 2; 8 / (5 * 2).
    assert weights.tolist() == pytest.approx([0.175, 0.0, 1.3125])
    torch.testing.assert_close(part.gram, torch.tensor([[1.0, 0.8], [0.8, 1.0]]).double())


def test_without_row_norm_all_vectors_are_divided_by_one_norm():
    part = FixedGramian(row_norm="none")

    weights = part.weigh(statistics(A, B, C))

    # The mean square is (25 + 4) / 2, halved.
    assert weights.tolist() == pytest.approx([0.25, 0.0, 0.75])
    expected = torch.tensor([[25.0, 8.0], [8.0, 4.0]]).double() / 14.5
    torch.testing.assert_close(part.gram, expected)


def test_ema_row_norm_moves_by_a_tenth():
    part = FixedGramian(row_norm="ema")
    part.weigh(statistics(A, B, C))

    weights = part.weigh(statistics([6.0, 8.0], B, C))

    # 0.9 * 5 + 0.1 * 10 = 5.5 and 2 over sqrt(2), mean 3.75; products 100, 16 and 4, halved.
    assert part.norms.run_state() == pytest.approx({"a": 5.5 / 2**0.5, "c": 2 / 2**0.5})
    assert weights.tolist() == pytest.approx([0.25 * 3.75 / 5.5, 0.0, 0.75 * 3.75 / 2])
    expected = torch.tensor([[100 / 5.5**2, 16 / 11], [16 / 11, 1.0]]).double()
    torch.testing.assert_close(part.gram, expected)

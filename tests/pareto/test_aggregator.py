import sys
from dataclasses import replace

import pytest
import torch

from rlcomp.errors import NumericalError
from rlcomp.metrics import recording
from rlcomp.pareto.aggregator import Aggregator, Objectives, weighed


class Told(Aggregator):
    def __init__(self, *weights):
        super().__init__()
        self.given = torch.tensor(weights, dtype=torch.float64)

    def weigh(self, objectives):
        return self.given


def objectives(*vectors, returns=(1.0, float("nan"))):
    rows = torch.tensor(vectors, dtype=torch.float64)
    return Objectives(("a", "b"), torch.tensor(returns).double(), rows.mean(1), rows @ rows.T)


def test_what_was_weighed_is_recorded_where_it_was():
    # 3 (1, 0) + (-2, 1) = (1, 1): along a 1, along b -1. v of (1, 0), (-2, 1): c1 = (5 + 2) / 10,
    # v = (0.1, 0.3), |v|^2 = 0.1 of 5.
    with recording() as ledger:
        weights = weighed(Told(3.0, 1.0), objectives([1.0, 0.0], [-2.0, 1.0]), "gradient")

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


def test_of_weights_row_by_row_the_mean_is_recorded():
    with recording() as ledger:
        weighed(Told([1.0, 0.0], [0.5, 0.5], [0.75, 0.25]), objectives([1.0, 0.0], [0.0, 1.0]))

    means = ledger.means()
    assert (means["pareto/reward/weight/a"], means["pareto/reward/weight/b"]) == (0.75, 0.25)


def test_an_objective_without_a_vector_leaves_the_gap_of_the_others():
    with recording() as ledger:
        weighed(Told(1.0, 1.0), objectives([2.0, 0.0], [0.0, 0.0]))
        weighed(Told(1.0, 1.0), objectives([0.0, 0.0], [0.0, 0.0]), "advantage")

    assert ledger.means()["pareto/reward/gap"] == 1.0
    assert "pareto/advantage/gap" not in ledger.means()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_vector_that_is_not_finite_names_its_objective(value):
    with pytest.raises(NumericalError, match="'b'"):
        weighed(Told(1.0, 1.0), objectives([1.0, 0.0], [value, 0.0]))


@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_a_return_that_is_infinite_names_its_objective_before_anything_moves(value):
    class Moving(Told):
        def weigh(self, objectives):
            raise AssertionError("weighed")

    with pytest.raises(NumericalError, match="'b': its mean reward is"):
        weighed(Moving(), objectives([1.0, 0.0], [0.0, 1.0], returns=(1.0, value)))


@pytest.mark.parametrize("weights", [(1.0, float("nan")), ([1.0, 0.0], [1.0, float("inf")])])
def test_a_weight_that_is_not_finite_names_its_objective_and_who_gave_it(weights):
    with pytest.raises(NumericalError, match="'b': the weight that Told gives it"):
        weighed(Told(*weights), objectives([1.0, 0.0], [0.0, 1.0]))


@pytest.mark.parametrize(("along", "conflict"), [(-0.9e-3, 0.0), (-1.1e-3, 1.0), (0.5, 0.0)])
@pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
def test_a_conflict_is_a_cosine_below_a_thousandth_whatever_the_lengths(along, conflict, length):
    # The weights take the first alone, at a cosine of ``along`` with the second.
    second = [length * along, length * (1 - along**2) ** 0.5]

    with recording() as ledger:
        weighed(Told(3.0, 0.0), objectives([2.0, 0.0], second))

    means = ledger.means()
    assert means["pareto/reward/conflict/b"] == conflict
    assert means["pareto/reward/conflict/a"] == 0.0
    assert means["pareto/reward/worst_cosine"] == pytest.approx(along)


def test_a_vector_that_is_0_has_no_cosine_and_a_sum_that_is_0_no_conflict():
    with recording() as ledger:
        weighed(Told(1.0, 1.0), objectives([1.0, 0.0], [0.0, 0.0]))
        weighed(Told(1.0, 1.0), objectives([0.1, 0.7], [-0.1, -0.7]), "advantage")

    means = ledger.means()
    assert means["pareto/reward/worst_cosine"] == 1.0
    assert means["pareto/advantage/worst_cosine"] == pytest.approx(0.0, abs=1e-6)
    assert means["pareto/advantage/conflict/a"] == means["pareto/advantage/conflict/b"] == 0.0


def test_more_than_8_objectives_need_no_solver_unless_the_aggregator_does(monkeypatch):
    monkeypatch.setitem(sys.modules, "quadprog", None)
    names, eye = tuple("abcdefghi"), torch.eye(9).double()

    with recording() as ledger:
        weighed(Told(*[1.0] * 9), Objectives(names, torch.zeros(9), eye.mean(1), eye))

    assert ledger.means()["pareto/reward/worst_cosine"] == pytest.approx(1 / 3)
    assert "pareto/reward/gap" not in ledger.means()


def test_weights_for_a_unit_of_return_are_turned_into_those_of_divided_vectors():
    class OfReturns(Told):
        of_returns = True

        def weigh(self, objectives):
            self.shown = objectives
            return self.given

    given = objectives([1.0, 0.0], [0.0, 1.0])
    given = replace(given, units=torch.tensor([0.5, 40.0]).double())
    told = OfReturns(150.0, 1.5)

    with recording() as ledger:
        weights = weighed(told, given)

    assert weights.tolist() == [75.0, 60.0]
    assert told.shown.gram.tolist() == [[0.25, 0.0], [0.0, 1600.0]]
    assert told.shown.means.tolist() == [0.25, 20.0]
    assert ledger.means()["pareto/reward/weight/b"] == 1.5
    assert weighed(Told(150.0, 1.5), given).tolist() == [150.0, 1.5]

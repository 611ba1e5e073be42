import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.pareto.gradients import MGDA, PAMA, LagrangianAggregator
from rlcomp.errors import ConfigError
from rlcomp.functional.min_norm import min_norm
from rlcomp.functional.scalarization import projection
from rlcomp.pareto.aggregator import Objectives

A1, A2 = [1.0, 0.0, 2.0], [0.0, 1.0, 1.0]
AGGREGATORS = [
    PAMA(mode="vector"),
    PAMA(mode="scalar"),
    *(MGDA(row_norm=norm) for norm in ("none", "unit")),
]

seeds = st.integers(0, 10000)


def random_rows(seed, count):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 6, generator=generator, dtype=torch.float64)
    return rows * torch.rand(count, 1, generator=generator, dtype=torch.float64) * 3


def test_pama_modes_on_two_vectors(make_objectives):
    # Vector: the Gram is [[5, 2], [2, 2]], the second is shorter than any mixture. Scalar: the
    # means are 1 and 2 / 3.
    assert PAMA(mode="vector").weigh(make_objectives([A1, A2])).tolist() == [0.0, 1.0]
    assert PAMA(mode="scalar").weigh(make_objectives([A1, A2])).tolist() == [0.0, 1.0]
    # Turned round the first: [[5, -2], [-2, 2]]: c1 = 4 / 11; the means -1 and 2 / 3: c1 = 2 / 5.
    turned = make_objectives([[-1.0, 0.0, -2.0], A2])
    assert float(PAMA(mode="vector").weigh(turned)[0]) == pytest.approx(4 / 11)
    assert float(PAMA(mode="scalar").weigh(turned)[0]) == pytest.approx(2 / 5)


@given(seeds, st.integers(1, 5))
def test_scalar_pama_is_the_projection_of_0(seed, count):
    rows = random_rows(seed, count)
    weights = PAMA(mode="scalar").weigh(objectives_of(rows))

    assert float(weights @ rows.mean(1)) == pytest.approx(projection(rows.mean(1)), abs=1e-12)


@given(seeds, st.integers(1, 5))
def test_vector_pama_is_the_shortest_combination(seed, count):
    rows = random_rows(seed, count)

    weights = PAMA(mode="vector").weigh(objectives_of(rows))

    torch.testing.assert_close(weights, min_norm(rows @ rows.T))


@pytest.mark.parametrize("part", AGGREGATORS)
def test_one_objective_has_weight_1(part, make_objectives):
    assert part.weigh(make_objectives([[-1.0, 3.0]])).tolist() == [1.0]


@pytest.mark.parametrize("part", AGGREGATORS)
def test_an_objective_with_a_zero_vector_has_weight_0(part, make_objectives):
    assert part.weigh(make_objectives([[0.0] * 3, A1])).tolist() == [0.0, 1.0]
    assert part.weigh(make_objectives([[0.0] * 3, [0.0] * 3])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("part", AGGREGATORS)
@given(seed=seeds)
def test_a_duplicate_objective_changes_nothing(part, seed):
    rows = random_rows(seed, 3)
    more = torch.cat([rows, rows[1:2]])

    once, twice = part.weigh(objectives_of(rows)) @ rows, part.weigh(objectives_of(more)) @ more

    # The common length of the rows is a mean over all of them: direction, not size.
    torch.testing.assert_close(_direction(twice), _direction(once), atol=1e-6, rtol=0)


@pytest.mark.parametrize("part", AGGREGATORS)
@given(seed=seeds, order=st.permutations(range(4)))
def test_weights_follow_the_order_of_the_objectives(part, seed, order):
    rows = random_rows(seed, 4)

    permuted = part.weigh(objectives_of(rows[list(order)]))

    torch.testing.assert_close(
        permuted, part.weigh(objectives_of(rows))[list(order)], atol=1e-8, rtol=0
    )


@given(seed=seeds)
def test_a_larger_unit_reduces_the_weight_except_for_unit_rows(seed):
    # With p the cosine: (1 - 100 p) / (10001 - 200 p), at most 101 / 10201, where p is -1.
    rows = torch.nn.functional.normalize(random_rows(seed, 2), dim=1)
    more = rows * torch.tensor([[100.0], [1.0]]).double()

    for part in (MGDA(row_norm="none"), PAMA(mode="vector")):
        assert part.weigh(objectives_of(more))[0] < 0.0102
    unit = MGDA(row_norm="unit")
    torch.testing.assert_close(
        _direction(unit.weigh(objectives_of(more)) @ more),
        _direction(unit.weigh(objectives_of(rows)) @ rows),
    )


def test_two_vectors_of_one_norm_have_equal_weights(make_objectives):
    rows = random_rows(0, 2)

    weights = PAMA(mode="vector").weigh(make_objectives(rows / rows.norm(dim=1, keepdim=True)))

    torch.testing.assert_close(weights, torch.tensor([0.5, 0.5]).double())


def objectives_of(rows):
    names = tuple("abcdefgh"[: len(rows)])
    return Objectives(names, rows.mean(1), rows.mean(1), rows @ rows.T)


def _direction(vector):
    return vector / vector.norm().clamp(min=1e-9)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("noise", [1e-9, -1e-9])
def test_a_mean_below_rounding_counts_as_0(noise, unit, make_objectives):
    # Group-centred: (1, -1) and (2, -2), means 0 but for the noise.
    rows = torch.tensor([[1.0 + noise, -1.0], [-2.0 - noise, 2.0]], dtype=torch.float64)

    weights = PAMA(mode="scalar").weigh(make_objectives(unit * rows))

    assert weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_a_mean_above_rounding_counts(unit, make_objectives):
    rows = torch.tensor([[1.00001, -1.0], [2.001, -2.0]], dtype=torch.float64)

    weights = PAMA(mode="scalar").weigh(make_objectives(unit * rows))

    assert weights.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("part", "weights"), [(0.9e-6, [0.5, 0.5]), (1.1e-6, [0.0, 1.0])])
def test_the_rounding_bound_of_a_mean_is_a_millionth_of_the_norm(part, weights, make_objectives):
    # (1 + x, -1) has mean x / 2 and size sqrt(2). Of two means of 0 each has half, of a mean above
    # 0 and one of 0 the second has all.
    rows = torch.tensor([[1.0 + part * 2 * 2**0.5, -1.0], [2.0, -2.0]], dtype=torch.float64)

    assert PAMA(mode="scalar").weigh(make_objectives(rows)).tolist() == weights


NAN = float("nan")


def test_a_multiplier_is_updated_after_its_use(make_objectives):
    # b is 0.5 below its threshold, 0.1 a unit: 0, 0.05, 0.1; c is above its own.
    part = LagrangianAggregator(maximise="a", thresholds={"c": 0.0, "b": 1.0}, step=0.1)

    weights = [
        part.weigh(make_objectives(torch.eye(3), [9.0, 0.5, 0.5])).tolist() for _ in range(3)
    ]

    assert [row[0] for row in weights] == [1.0] * 3
    assert [row[1] for row in weights] == pytest.approx([0.0, 0.05, 0.1])
    assert [row[2] for row in weights] == [0.0] * 3
    assert part.state_dict()["multipliers"].tolist() == pytest.approx([0.0, 0.15])


def test_a_batch_without_the_objective_keeps_its_multiplier(make_objectives):
    part = LagrangianAggregator(maximise="a", thresholds={"b": 1.0}, step=1.0)
    part.weigh(make_objectives(torch.eye(2), [0.0, 0.0]))

    part.weigh(make_objectives(torch.eye(2), [0.0, NAN]))

    assert part.multipliers.tolist() == [1.0]


@pytest.mark.parametrize(("thresholds"), [{}, {"a": 1.0}])
def test_thresholds_are_required_and_exclude_the_maximised_objective(thresholds):
    with pytest.raises(ConfigError, match="except 'a'"):
        LagrangianAggregator(maximise="a", thresholds=thresholds, step=0.1)


def test_thresholds_must_name_the_other_objectives(make_objectives):
    with pytest.raises(ConfigError, match="names 'bb'; did you mean 'b'"):
        LagrangianAggregator(maximise="a", thresholds={"bb": 1.0}, step=0.1).weigh(
            make_objectives(torch.eye(2))
        )


def test_the_default_step_of_a_multiplier_is_a_tenth(make_objectives):
    part = LagrangianAggregator(maximise="a", thresholds={"b": 1.0})

    for returned, multiplier in ((0.0, 0.1), (3.0, 0.0), (-1.0, 0.2)):
        part.weigh(make_objectives(torch.eye(2), [0.0, returned]))
        assert part.multipliers.tolist() == pytest.approx([multiplier])

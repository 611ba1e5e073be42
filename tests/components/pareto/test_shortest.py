import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.pareto.gradients import MGDA, PAMA
from rlcomp.functional.min_norm import min_norm
from rlcomp.functional.scalarization import projection

A1, A2 = [1.0, 0.0, 2.0], [0.0, 1.0, 1.0]
AGGREGATORS = [
    PAMA(mode="vector"),
    PAMA(mode="scalar"),
    *(MGDA(row_norm=norm) for norm in ("none", "unit")),
]

seeds = st.integers(0, 10000)


def drawn(seed, count):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 6, generator=generator, dtype=torch.float64)
    return rows * torch.rand(count, 1, generator=generator, dtype=torch.float64) * 3


def test_the_two_modes_of_pama(shown):
    # Vector: the Gram is [[5, 2], [2, 2]], the second is shorter than any mixture. Scalar: the
    # means are 1 and 2 / 3.
    assert PAMA(mode="vector").weigh(shown([A1, A2])).tolist() == [0.0, 1.0]
    assert PAMA(mode="scalar").weigh(shown([A1, A2])).tolist() == [0.0, 1.0]
    # Turned round the first: [[5, -2], [-2, 2]]: c1 = 4 / 11; the means -1 and 2 / 3: c1 = 2 / 5.
    turned = shown([[-1.0, 0.0, -2.0], A2])
    assert float(PAMA(mode="vector").weigh(turned)[0]) == pytest.approx(4 / 11)
    assert float(PAMA(mode="scalar").weigh(turned)[0]) == pytest.approx(2 / 5)


@given(seeds, st.integers(1, 5))
def test_scalar_pama_is_the_projection_of_0(seed, count):
    rows = drawn(seed, count)
    with_means = PAMA(mode="scalar")

    weights = with_means.weigh(_shown(rows))

    assert float(weights @ rows.mean(1)) == pytest.approx(projection(rows.mean(1)), abs=1e-12)


@given(seeds, st.integers(1, 5))
def test_vector_pama_is_the_shortest_combination(seed, count):
    rows = drawn(seed, count)

    weights = PAMA(mode="vector").weigh(_shown(rows))

    torch.testing.assert_close(weights, min_norm(rows @ rows.T))


@pytest.mark.parametrize("part", AGGREGATORS)
def test_one_objective_has_weight_1(part, shown):
    assert part.weigh(shown([[-1.0, 3.0]])).tolist() == [1.0]


@pytest.mark.parametrize("part", AGGREGATORS)
def test_an_objective_without_a_vector_is_left_out_and_does_not_stop_the_others(part, shown):
    assert part.weigh(shown([[0.0] * 3, A1])).tolist() == [0.0, 1.0]
    assert part.weigh(shown([[0.0] * 3, [0.0] * 3])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("part", AGGREGATORS)
@given(seed=seeds)
def test_an_objective_given_twice_changes_nothing(part, seed):
    rows = drawn(seed, 3)
    more = torch.cat([rows, rows[1:2]])

    once, twice = part.weigh(_shown(rows)) @ rows, part.weigh(_shown(more)) @ more

    # The common length of the rows is a mean over all of them: direction, not size.
    torch.testing.assert_close(_direction(twice), _direction(once), atol=1e-6, rtol=0)


@pytest.mark.parametrize("part", AGGREGATORS)
@given(seed=seeds, order=st.permutations(range(4)))
def test_the_order_of_the_objectives_does_not_matter(part, seed, order):
    rows = drawn(seed, 4)

    moved = part.weigh(_shown(rows[list(order)]))

    torch.testing.assert_close(moved, part.weigh(_shown(rows))[list(order)], atol=1e-8, rtol=0)


@given(seed=seeds)
def test_a_larger_unit_costs_an_objective_its_weight_unless_rows_are_brought_to_one_length(seed):
    # With p the cosine: (1 - 100 p) / (10001 - 200 p), at most 101 / 10201, where p is -1.
    rows = torch.nn.functional.normalize(drawn(seed, 2), dim=1)
    more = rows * torch.tensor([[100.0], [1.0]]).double()

    for part in (MGDA(row_norm="none"), PAMA(mode="vector")):
        assert part.weigh(_shown(more))[0] < 0.0102
    unit = MGDA(row_norm="unit")
    torch.testing.assert_close(
        _direction(unit.weigh(_shown(more)) @ more), _direction(unit.weigh(_shown(rows)) @ rows)
    )


def test_signed_advantages_of_one_length_weigh_the_same_whatever_they_are(shown):
    rows = drawn(0, 2)

    weights = PAMA(mode="vector").weigh(shown(rows / rows.norm(dim=1, keepdim=True)))

    torch.testing.assert_close(weights, torch.tensor([0.5, 0.5]).double())


def _shown(rows):
    from rlcomp.pareto.aggregator import Objectives

    names = tuple("abcdefgh"[: len(rows)])
    return Objectives(names, rows.mean(1), rows.mean(1), rows @ rows.T)


def _direction(vector):
    return vector / vector.norm().clamp(min=1e-9)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("noise", [1e-9, -1e-9])
def test_a_mean_that_is_rounding_noise_does_not_choose_the_objective(noise, unit, shown):
    # Group-centred: (1, -1) and (2, -2), means 0 but for the noise.
    rows = torch.tensor([[1.0 + noise, -1.0], [-2.0 - noise, 2.0]], dtype=torch.float64)

    weights = PAMA(mode="scalar").weigh(shown(unit * rows))

    assert weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_a_mean_above_rounding_does(unit, shown):
    rows = torch.tensor([[1.00001, -1.0], [2.001, -2.0]], dtype=torch.float64)

    weights = PAMA(mode="scalar").weigh(shown(unit * rows))

    assert weights.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("part", "weights"), [(0.9e-6, [0.5, 0.5]), (1.1e-6, [0.0, 1.0])])
def test_a_mean_counts_from_a_millionth_of_the_vector_on(part, weights, shown):
    # (1 + x, -1) has mean x / 2 and size sqrt(2). Of two means of 0 each has half, of a mean above
    # 0 and one of 0 the second has all.
    rows = torch.tensor([[1.0 + part * 2 * 2**0.5, -1.0], [2.0, -2.0]], dtype=torch.float64)

    assert PAMA(mode="scalar").weigh(shown(rows)).tolist() == weights

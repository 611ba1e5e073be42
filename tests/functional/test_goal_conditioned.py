import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.errors import ShapeError
from rlcomp.functional.goal_conditioned import (
    energies,
    episode_order,
    future_positions,
    geometric_positions,
    info_nce,
)


def chain():
    """A chain of three states: moves, successor probabilities and goals' probabilities.

    ``p(g|s,a) = (1 - gamma) sum_k gamma^(k-1) P(s_k = g)``, solved as a linear system.
    """
    moves = torch.tensor([[0.1, 0.9, 0.0], [0.5, 0.0, 0.5], [0.0, 0.3, 0.7]], dtype=torch.float64)
    gamma = 0.8
    successor = (1 - gamma) * torch.linalg.solve(torch.eye(3) - gamma * moves, moves)
    return moves, successor, successor.mean(0)  # states and actions drawn uniformly


def expected_loss(table):
    """InfoNCE of a critic that is a table, over all batches of two pairs, each by its chance."""
    _, successor, _ = chain()
    total = torch.zeros((), dtype=torch.float64)
    pairs = [(state, goal) for state in range(3) for goal in range(3)]
    for first in pairs:
        for second in pairs:
            chance = successor[first] / 3 * successor[second] / 3
            states, goals = zip(first, second, strict=True)
            total = total + chance * info_nce(table[list(states)][:, list(goals)], penalty=0.0)
    return total


def test_info_nce_optimum_of_a_chain_is_the_log_ratio():
    _, successor, marginal = chain()
    assert successor.sum(1).tolist() == pytest.approx([1, 1, 1])
    shift = torch.tensor([[0.0], [1.0], [-2.0]], dtype=torch.float64)  # c(s, a): any
    best = (successor.log() - marginal.log() + shift).requires_grad_()

    least = expected_loss(best)
    (slope,) = torch.autograd.grad(least, best)

    assert slope.abs().max() < 1e-12
    for seed in range(5):
        torch.manual_seed(seed)
        other = best.detach() + 0.1 * torch.randn(3, 3, dtype=torch.float64)
        assert expected_loss(other) > least


def test_zero_energies_are_not_optimal():
    flat = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)

    (slope,) = torch.autograd.grad(expected_loss(flat), flat)

    assert slope.abs().max() > 0.01


def test_info_nce_by_hand():
    # f = [[-1, -2], [-3, -1]]: logsumexp -1 + log(1 + e^-1) = -.68674 and -1 + log(1 + e^-2) =
    # -.87307; minus the diagonal .31326, .12693; mean .22010. Squares .47161, .76226; mean .61693.
    energy = torch.tensor([[-1.0, -2.0], [-3.0, -1.0]])

    assert float(info_nce(energy, penalty=0.0)) == pytest.approx(0.22010, abs=1e-5)
    assert float(info_nce(energy, penalty=0.5)) == pytest.approx(0.22010 + 0.30847, abs=1e-5)


def test_info_nce_of_equal_energies_is_log_n():
    assert float(info_nce(torch.full((8, 8), -3.0), 0.0)) == pytest.approx(math.log(8))


@pytest.mark.parametrize("shape", [(2, 3), (4,)])
def test_info_nce_of_a_matrix_that_is_not_square_raises(shape):
    with pytest.raises(ShapeError, match=r"'energy' has shape"):
        info_nce(torch.zeros(shape), penalty=0.0)


def test_energies_are_distances_of_all_pairs():
    first = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    second = torch.tensor([[0.0, 4.0], [3.0, 0.0], [0.0, 0.0]])

    assert energies(first, second).tolist() == [[-4.0, -3.0, 0.0], [-5.0, 0.0, -3.0]]


def test_energy_gradient_is_the_direction_and_finite_at_distance_0():
    first = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)

    energies(first, torch.zeros(1, 2)).sum().backward()

    assert first.grad.flatten().tolist() == pytest.approx([0.0, 0.0, -0.6, -0.8])


def test_energies_of_near_pairs_far_from_0_are_exact():
    first = torch.tensor([[1000.0, 0.0]]).repeat(30, 1)

    # By the expansion of the square 10^6 - 10^6 would be left of 10^-6 in float32.
    assert float(energies(first, first + torch.tensor([[0.0, 0.001]]))[0, 0]) == pytest.approx(
        -0.001
    )


def test_future_positions_by_enumeration():
    # Two episodes of three and two steps, written in turns as a full replay may hold them.
    trajectory = torch.tensor([7, 3, 7, 3, 7])
    step = torch.tensor([0, 0, 1, 1, 2])

    order, last = episode_order(trajectory, step)

    # Episode 3 is rows 1, 3, episode 7 rows 0, 2, 4.
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert last.tolist() == [1, 1, 4, 4, 4]


@pytest.mark.parametrize(("place", "left"), [(2, 3), (3, 2), (4, 1)])
def test_future_positions_are_uniform(place, left):
    # Of t = 0 of three steps f is 0, 1, 2 with 1/3 each.
    draws = (torch.arange(600) + 0.5) / 600

    later = future_positions(torch.full((600,), place), torch.full((600,), 4), draws)

    counts = torch.bincount(later, minlength=5)[place:]
    assert counts.tolist() == [600 // left] * left


def test_the_largest_future_draw_is_within_the_episode():
    largest = torch.tensor([1 - 2**-24])
    assert future_positions(torch.tensor([0]), torch.tensor([10**7]), largest).item() <= 10**7


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_goals_are_later_steps_of_the_own_episode(episodes):
    trajectory = torch.tensor(episodes)
    step = torch.tensor([episodes[:row].count(episodes[row]) for row in range(len(episodes))])
    order, last = episode_order(trajectory, step)
    place = torch.arange(len(episodes))

    for draw in (0.0, 0.5, 0.999):
        later = order[future_positions(place, last, torch.full((len(episodes),), draw))]
        assert torch.equal(trajectory[later], trajectory[order])
        assert bool((step[later] >= step[order]).all())


@pytest.mark.parametrize(("gamma", "length"), [(0.5, 3), (0.9, 10), (0.99, 1)])
def test_geometric_positions_are_geometric_and_end_with_the_episode(gamma, length):
    draws = (torch.arange(20_000) + 0.5) / 20_000
    first, last = torch.full((20_000,), 5), torch.full((20_000,), 4 + length)

    later = geometric_positions(first, last, draws, gamma) - 5

    weights = torch.tensor([gamma**k for k in range(length)])
    share = torch.bincount(later, minlength=length) / 20_000
    # An even grid of draws hits each part within one draw.
    torch.testing.assert_close(share, weights / weights.sum(), atol=1e-4, rtol=0)


def test_the_largest_geometric_draw_is_within_the_episode():
    largest = torch.tensor([1 - 2**-24])

    for left in (1, 7, 10**6):
        place = geometric_positions(torch.tensor([0]), torch.tensor([left - 1]), largest, 0.99)
        assert 0 <= place.item() < left

import math

import pytest
import torch

from rlcomp.errors import ShapeError
from rlcomp.functional.goal_conditioned import energies, info_nce


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


def test_the_optimal_critic_of_a_chain_is_the_log_ratio_from_its_successor_matrix():
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


def test_a_table_of_zeros_is_no_optimum():
    flat = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)

    (slope,) = torch.autograd.grad(expected_loss(flat), flat)

    assert slope.abs().max() > 0.01


def test_two_rows_by_hand():
    # f = [[-1, -2], [-3, -1]]: logsumexp -1 + log(1 + e^-1) = -.68674 and -1 + log(1 + e^-2) =
    # -.87307; minus the diagonal .31326, .12693; mean .22010. Squares .47161, .76226; mean .61693.
    energy = torch.tensor([[-1.0, -2.0], [-3.0, -1.0]])

    assert float(info_nce(energy, penalty=0.0)) == pytest.approx(0.22010, abs=1e-5)
    assert float(info_nce(energy, penalty=0.5)) == pytest.approx(0.22010 + 0.30847, abs=1e-5)


def test_a_critic_that_knows_nothing_has_log_n():
    assert float(info_nce(torch.full((8, 8), -3.0), 0.0)) == pytest.approx(math.log(8))


@pytest.mark.parametrize("shape", [(2, 3), (4,)])
def test_as_many_goals_as_rows(shape):
    with pytest.raises(ShapeError, match=r"'energy' has shape"):
        info_nce(torch.zeros(shape), penalty=0.0)


def test_energies_are_distances_of_every_pair():
    first = torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    second = torch.tensor([[0.0, 4.0], [3.0, 0.0], [0.0, 0.0]])

    assert energies(first, second).tolist() == [[-4.0, -3.0, 0.0], [-5.0, 0.0, -3.0]]


def test_the_slope_is_the_direction_and_finite_where_they_coincide():
    first = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)

    energies(first, torch.zeros(1, 2)).sum().backward()

    assert first.grad.flatten().tolist() == pytest.approx([0.0, 0.0, -0.6, -0.8])


def test_near_pairs_far_from_0_keep_their_distance():
    first = torch.tensor([[1000.0, 0.0]]).repeat(30, 1)

    # By the expansion of the square 10^6 - 10^6 would be left of 10^-6 in float32.
    assert float(energies(first, first + torch.tensor([[0.0, 0.001]]))[0, 0]) == pytest.approx(
        -0.001
    )

"""Goal-conditioned learning: hindsight goals and contrastive energies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlcomp.errors import ShapeError


def energies(state_action: Tensor, goal: Tensor) -> Tensor:
    """Compute the energies ``f_ij = -||phi(s_i, a_i) - psi(g_j)||_2``, ``[N, M]``, nats.

    ``state_action`` ``phi`` is ``[N, D]``, ``goal`` ``psi`` ``[M, D]``.

    Source: Eysenbach et al. 2022, arXiv:2206.07568; the distance as in Wang et al. 2025,
    arXiv:2503.14858, equation 1.

    Examples:
        >>> energies(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[-5., -1.]])
    """
    # Subtract first: the expansion of the square cancels where a pair nearly coincides.
    return -torch.cdist(state_action, goal, compute_mode="donot_use_mm_for_euclid_dist")


def info_nce(energy: Tensor, penalty: float) -> Tensor:
    """Compute ``mean_i (logsumexp_j f_ij - f_ii) + penalty mean_i (logsumexp_j f_ij)^2``.

    ``energy`` ``f`` is ``[N, N]``, in nats; the result is a scalar. The diagonal of ``f`` holds the
    positive pairs: ``g_i`` was reached after ``(s_i, a_i)``. Without penalty the minimum is
    ``f = log p(g|s,a) - log p(g) + c(s,a)`` for any number N of rows; the penalty keeps ``c`` near
    ``-log N``. ShapeError if the matrix is not square.

    Source: van den Oord et al. 2018, arXiv:1807.03748; Wang et al. 2025, arXiv:2503.14858, equation
    1.

    Examples:
        >>> info_nce(torch.zeros(2, 2), penalty=0.0)  # log 2
        tensor(0.6931)
    """
    if energy.dim() != 2 or energy.shape[0] != energy.shape[1]:
        raise ShapeError(f"'energy' has shape {list(energy.shape)}: as many goals as rows")
    partition = energy.logsumexp(dim=1)
    return (partition - energy.diagonal()).mean() + penalty * partition.square().mean()


def episode_order(trajectory: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Sort rows by episode, and locate the end of each row's episode in this order.

    ``trajectory`` and ``step`` are ``[R]``, int64. Return two int64 tensors ``[R]``: the rows
    sorted by episode, then by step; and, for each position in that order, the position of the last
    step of its episode.

    Examples:
        >>> order, last = episode_order(torch.tensor([1, 0, 1]), torch.tensor([1, 0, 0]))
        >>> order.tolist(), last.tolist()
        ([1, 2, 0], [0, 2, 2])
    """
    by_step = step.argsort(stable=True)
    order = by_step[trajectory[by_step].argsort(stable=True)]
    _, count = torch.unique_consecutive(trajectory[order], return_counts=True)
    last = (count.cumsum(0) - 1).repeat_interleave(count)
    return order, last


def future_positions(position: Tensor, last: Tensor, uniform: Tensor) -> Tensor:
    """Draw a later step of the same episode, or the step itself: ``f`` uniform in ``t..T-1``.

    ``position`` ``[N]`` are positions in the order of :func:`episode_order`, ``last`` ``[N]`` the
    ends of their episodes; ``uniform`` ``[N]`` is in [0, 1). The result ``f`` is ``[N]``, int64.
    The goal is the state achieved *after* step ``f``: ``f = t`` selects the next state.

    Source: Andrychowicz et al. 2017, arXiv:1707.01495, section 3.3, strategy ``future``.
    """
    remaining = last - position + 1
    # In float32 the product may round up to ``remaining``.
    return position + torch.minimum((uniform * remaining).long(), remaining - 1)


def geometric_positions(position: Tensor, last: Tensor, uniform: Tensor, gamma: float) -> Tensor:
    """Draw a later step of the same episode, ``k`` steps on with ``p(k) ~ gamma^k``, k >= 0.

    Arguments and result are as in :func:`future_positions`; ``gamma`` is in (0, 1). The goal is the
    state achieved *after* that step, ``k + 1`` steps away: a draw from the discounted future of the
    state and action, cut at the episode's end.

    Source: Eysenbach et al. 2022, arXiv:2206.07568, section 4.1.
    """
    remaining = last - position + 1
    within = 1 - gamma ** remaining.double()  # probability that the draw ends within the episode
    # Inversion: the share of draws with k < x is (1 - gamma^x) / within.
    offset = torch.log1p(-uniform.double() * within) / math.log(gamma)
    return position + torch.minimum(offset.long(), remaining - 1)

"""Contrastive reinforcement learning: energies, InfoNCE and its log-partition penalty."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ShapeError


def energies(state_action: Tensor, goal: Tensor) -> Tensor:
    """Compute the energy ``f_ij = -||phi_i - psi_j||_2`` of every pair.

    Args:
        state_action: ``phi(s_i, a_i)``, shape ``[N, E]``.
        goal: ``psi(g_j)``, shape ``[M, E]``.

    Returns:
        Shape ``[N, M]``, in nats.

    Source:
        Eysenbach et al. 2022, arXiv:2206.07568; the distance as in Wang et al. 2025,
        arXiv:2503.14858, equation 1.

    Examples:
        >>> energies(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[-5., -1.]])
    """
    # Subtract first: the expansion of the square cancels where a pair nearly coincides.
    return -torch.cdist(state_action, goal, compute_mode="donot_use_mm_for_euclid_dist")


def info_nce(energy: Tensor, penalty: float) -> Tensor:
    """Compute ``mean_i (logsumexp_j f_ij - f_ii) + penalty mean_i (logsumexp_j f_ij)^2``.

    Without penalty the minimum is ``f = log p(g|s,a) - log p(g) + c(s,a)`` for any number of rows.

    Args:
        energy: ``f``, shape ``[N, N]``; the goals that followed are on the diagonal.
        penalty: weight of the squared log-partition, >= 0; it keeps ``c`` near 0.

    Returns:
        A scalar, nats.

    Raises:
        ShapeError: the matrix is not square.

    Source:
        van den Oord et al. 2018, arXiv:1807.03748; Wang et al. 2025, arXiv:2503.14858, equation 1.

    Examples:
        >>> info_nce(torch.zeros(2, 2), penalty=0.0)  # log 2
        tensor(0.6931)
    """
    if energy.dim() != 2 or energy.shape[0] != energy.shape[1]:
        raise ShapeError(f"'energy' has shape {list(energy.shape)}: as many goals as rows")
    partition = energy.logsumexp(dim=1)
    return (partition - energy.diagonal()).mean() + penalty * partition.square().mean()

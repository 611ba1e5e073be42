"""Zero-sum matrix games of two players."""

from __future__ import annotations

from torch import Tensor


def exploitability(first: Tensor, second: Tensor, payoffs: Tensor) -> Tensor:
    """Exploitability: ``e(x, y) = (max_a (U y)_a - min_b (x^T U)_b) / 2``.

    What a best response to either strategy wins more than the value of the game, the mean of both;
    NashConv / 2. 0 exactly at an equilibrium.

    Args:
        first: x, mixed strategy of the first player, shape ``[A]``.
        second: y, of the second, shape ``[B]``.
        payoffs: U, what the first is paid by the second, shape ``[A, B]``, in reward units.

    Returns:
        A scalar >= 0, in reward units.

    Source:
        Lanctot et al. 2017, arXiv:1711.00832, section 2 (NashConv).

    Examples:
        >>> import torch
        >>> pennies = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
        >>> exploitability(torch.tensor([0.8, 0.2]), torch.tensor([0.5, 0.5]), pennies)
        tensor(0.3000)
    """
    return ((payoffs @ second).max() - (first @ payoffs).min()) / 2

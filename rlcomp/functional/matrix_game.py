"""Zero-sum matrix games of two players."""

from __future__ import annotations

from torch import Tensor


def exploitability(first: Tensor, second: Tensor, payoffs: Tensor) -> Tensor:
    """Compute the exploitability: ``e(x, y) = (max_a (U y)_a - min_b (x^T U)_b) / 2``.

    It is the mean, over both players, of the gain of a best response over the value of the game:
    NashConv / 2. 0 exactly at an equilibrium.

    Args:
        first: x, mixed strategy of the first player, shape ``[A]``.
        second: y, mixed strategy of the second player, shape ``[B]``.
        payoffs: U, payments from the second to the first player, shape ``[A, B]``, in reward units.

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

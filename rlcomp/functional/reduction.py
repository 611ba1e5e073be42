"""Reductions of token losses.

Computed before any micro-batch split: ``loss = sum_it w_it l_it``, with ``N`` tokens inside the
mask, ``S`` non-empty rows and ``n_i`` tokens in row i; for losses of rows ``loss = sum_u w_u l_u``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ShapeError


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Return the values inside the mask and exact 0 outside, even where they are NaN.

    ``y = x where m, else 0``, and not ``x m``: its value and gradient are NaN where ``x`` is NaN.

    Args:
        values: any shape; NaN and infinities outside the mask do no harm.
        mask: bool, of a shape that broadcasts with the values.

    Returns:
        The broadcast shape, in the dtype and units of the values.

    Examples:
        >>> masked(torch.tensor([1.0, torch.nan]), torch.tensor([True, False]))
        tensor([1., 0.])
    """
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))


def token_mean(mask: Tensor) -> Tensor:
    """Compute the token mean's weights (DAPO): ``w_it = 1 / N``.

    Args:
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, dimensionless, float32, 0 outside the mask; sums to 1.

    Source:
        Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 8.

    Examples:
        >>> import torch
        >>> token_mean(torch.tensor([[True, True], [True, False]]))[0]
        tensor([0.3333, 0.3333])
    """
    return mask / mask.sum().clamp(min=1)


def sequence_mean(mask: Tensor) -> Tensor:
    """Compute the weights of the sequence mean of token means (GRPO): ``w_it = 1 / (S * n_i)``.

    Args:
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, dimensionless, float32, 0 outside the mask; sums to 1.

    Source:
        Shao et al. 2024 (GRPO), arXiv:2402.03300, eq. 3.

    Examples:
        >>> import torch
        >>> sequence_mean(torch.tensor([[True, True], [True, False]]))
        tensor([[0.2500, 0.2500],
                [0.5000, 0.0000]])
    """
    lengths = mask.sum(1, keepdim=True)
    return mask / lengths.clamp(min=1) / (lengths > 0).sum().clamp(min=1)


def sequence_sum(mask: Tensor) -> Tensor:
    """Compute the weights of the sequence mean of token sums (REINFORCE): ``w_it = 1 / S``.

    Args:
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, dimensionless, float32, 0 outside the mask; a row sums to n_i / S.

    Source:
        Sutton & Barto 2018, section 13.3: the exact policy gradient.

    Examples:
        >>> import torch
        >>> sequence_sum(torch.tensor([[True, True], [True, False]]))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.0000]])
    """
    return mask / mask.any(1).sum().clamp(min=1)


def fixed_length(mask: Tensor, length: int) -> Tensor:
    """Compute the weights of a token sum over a constant length: ``w_it = 1 / (S * length)``.

    Args:
        mask: shape ``[B, T]``, bool.
        length: the constant in place of a response's length, in tokens.

    Returns:
        Shape ``[B, T]``, dimensionless, float32, 0 outside the mask.

    Source:
        Liu et al. 2025 (Dr. GRPO), arXiv:2503.20783, section 3.2.

    Examples:
        >>> import torch
        >>> fixed_length(torch.tensor([[True, True], [True, False]]), 5)
        tensor([[0.1000, 0.1000],
                [0.1000, 0.0000]])
    """
    return sequence_sum(mask) / length


def unit_mean(valid: Tensor, unit_rows: int) -> Tensor:
    """Compute the weights of a mean over units of adjacent rows (rows, pairs): ``w_u = 1 / U``.

    Args:
        valid: shape ``[B]``, bool; a unit with an invalid row does not count among the ``U``.
        unit_rows: rows per unit; ``B`` is a multiple of it.

    Returns:
        Shape ``[B]``, dimensionless, float32: the weight of its unit at every row, 0 for units that
        do not count.

    Raises:
        ShapeError: the last unit lacks rows.

    Source:
        Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7, with the sum in place of the
        expectation.

    Examples:
        >>> import torch
        >>> unit_mean(torch.tensor([True, True, True, False, False, False]), 2)
        tensor([1., 1., 0., 0., 0., 0.])
    """
    if valid.shape[0] % unit_rows:
        raise ShapeError(
            f"there are {valid.shape[0]} rows, no multiple of the {unit_rows} of a unit"
        )
    counted = valid.view(-1, unit_rows).all(1)
    return (counted / counted.sum().clamp(min=1)).repeat_interleave(unit_rows)

"""Weights of token and row losses.

``loss = sum_it w_it l_it`` with ``N`` tokens inside the mask, ``S`` non-empty rows, ``n_i`` tokens
in row i. Weights are computed before any micro-batch split. Masks are bool, ``[B, T]``; weights are
float32, dimensionless, 0 outside the mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ShapeError


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """Return the values inside the mask and exact 0 outside.

    ``x m`` would not do: its value and gradient are NaN where ``x`` is NaN. The mask broadcasts.

    Examples:
        >>> masked(torch.tensor([1.0, torch.nan]), torch.tensor([True, False]))
        tensor([1., 0.])
    """
    return torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))


def token_mean(mask: Tensor) -> Tensor:
    """Compute the token mean's weights (DAPO): ``w_it = 1 / N``.

    Source: Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 8.

    Examples:
        >>> token_mean(torch.tensor([[True, True], [True, False]]))[0]
        tensor([0.3333, 0.3333])
    """
    return mask / mask.sum().clamp(min=1)


def sequence_mean(mask: Tensor) -> Tensor:
    """Compute the weights of the sequence mean of token means (GRPO): ``w_it = 1 / (S * n_i)``.

    Source: Shao et al. 2024 (GRPO), arXiv:2402.03300, eq. 3.

    Examples:
        >>> sequence_mean(torch.tensor([[True, True], [True, False]]))
        tensor([[0.2500, 0.2500],
                [0.5000, 0.0000]])
    """
    lengths = mask.sum(1, keepdim=True)
    return mask / lengths.clamp(min=1) / (lengths > 0).sum().clamp(min=1)


def sequence_sum(mask: Tensor) -> Tensor:
    """Compute the weights of the sequence mean of token sums (REINFORCE): ``w_it = 1 / S``.

    Source: Sutton & Barto 2018, section 13.3: the exact policy gradient.

    Examples:
        >>> sequence_sum(torch.tensor([[True, True], [True, False]]))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.0000]])
    """
    return mask / mask.any(1).sum().clamp(min=1)


def fixed_length(mask: Tensor, length: int) -> Tensor:
    """Compute the weights of a token sum over ``length`` tokens: ``w_it = 1 / (S * length)``.

    Source: Liu et al. 2025 (Dr. GRPO), arXiv:2503.20783, section 3.2.

    Examples:
        >>> fixed_length(torch.tensor([[True, True], [True, False]]), 5)
        tensor([[0.1000, 0.1000],
                [0.1000, 0.0000]])
    """
    return sequence_sum(mask) / length


def unit_mean(valid: Tensor, unit_rows: int) -> Tensor:
    """Compute the weights of a mean over units of ``unit_rows`` adjacent rows: ``w_u = 1 / U``.

    ``valid`` is ``[B]``; a unit with an invalid row does not count among the ``U``, and its rows
    have weight 0. ShapeError if ``B`` is no multiple of ``unit_rows``.

    Source: Rafailov et al. 2023 (DPO), arXiv:2305.18290, eq. 7, with the sum in place of the
    expectation.

    Examples:
        >>> unit_mean(torch.tensor([True, True, True, False, False, False]), 2)
        tensor([1., 1., 0., 0., 0., 0.])
    """
    if valid.shape[0] % unit_rows:
        raise ShapeError(
            f"there are {valid.shape[0]} rows, no multiple of the {unit_rows} of a unit"
        )
    counted = valid.view(-1, unit_rows).all(1)
    return (counted / counted.sum().clamp(min=1)).repeat_interleave(unit_rows)

"""Linear recurrences from right to left that skip positions outside a mask."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.masked import masked


def inside(name: str, values: Tensor, mask: Tensor) -> Tensor:
    """Return the values inside the mask, in float32 at least; exactly 0 outside.

    Args:
        name: name of the values in the error.
        values: shape ``[B, T]``.
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, in the units of ``values``.

    Raises:
        ShapeError: the two differ in shape.
        NumericalError: a value inside the mask is not finite.

    Source:
        This project.

    Examples:
        >>> nan = float("nan")
        >>> inside("value", torch.tensor([[1.0, nan]]), torch.tensor([[True, False]]))
        tensor([[1., 0.]])
    """
    if values.shape != mask.shape:
        raise ShapeError(f"'{name}' has shape {list(values.shape)}, 'mask' {list(mask.shape)}")
    selected = masked(values if values.dtype == torch.float64 else values.float(), mask)
    if not bool(selected.isfinite().all()):
        row, column = (~selected.isfinite()).nonzero()[0].tolist()
        raise NumericalError(f"'{name}' is {float(selected[row, column])} at [{row}, {column}]")
    return selected


def following(values: Tensor, mask: Tensor, last: Tensor | None = None) -> Tensor:
    """Return the value at the next position inside the mask.

    Args:
        values: shape ``[B, T]``.
        mask: shape ``[B, T]``, bool.
        last: shape ``[B]``: the value after the last position inside the mask; 0 if None.

    Returns:
        Shape ``[B, T]``, in the units of ``values``; ``last`` where nothing follows.

    Source:
        This project.

    Examples:
        >>> following(torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[True, False, True]]))
        tensor([[2., 2., 0.]])
    """
    width = values.shape[1]
    place = torch.arange(width + 1, device=values.device).expand(len(values), -1)
    end = mask.new_ones(len(mask), 1)
    place = torch.where(torch.cat([mask, end], 1), place, width)[:, 1:]
    after = place.flip(1).cummin(1).values.flip(1)
    return torch.cat([values, _start(values, last)[:, None]], 1).gather(1, after)


def accumulate(
    terms: Tensor, decay: Tensor | float, mask: Tensor, last: Tensor | None = None
) -> Tensor:
    """Compute the backward recurrence ``x_t = terms_t + decay_t * x_next(t)`` inside the mask.

    Args:
        terms: shape ``[B, T]``.
        decay: dimensionless; a number, or of a shape that broadcasts to ``[B, T]``.
        mask: shape ``[B, T]``, bool.
        last: shape ``[B]``: x after the last position inside the mask; 0 if None.

    Returns:
        Shape ``[B, T]``, in the units of ``terms``; 0 outside the mask.

    Source:
        This project.

    Examples:
        >>> mask = torch.tensor([[True, False, True]])
        >>> accumulate(torch.tensor([[1.0, 9.0, 2.0]]), 0.5, mask)
        tensor([[2., 0., 2.]])
    """
    factor = torch.as_tensor(decay, dtype=terms.dtype, device=terms.device).expand_as(terms)
    total, sums = _start(terms, last), torch.zeros_like(terms)
    for t in reversed(range(terms.shape[1])):
        total = torch.where(mask[:, t], terms[:, t] + factor[:, t] * total, total)
        sums[:, t] = total
    return masked(sums, mask)


def last_inside(values: Tensor, mask: Tensor) -> Tensor:
    """Return the value at the last position inside the mask, 0 in empty rows.

    Args:
        values: shape ``[B, T]``.
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B]``, in the units of ``values``.

    Source:
        This project.

    Examples:
        >>> last_inside(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[True, True, False]]))
        tensor([2.])
    """
    last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
    return masked(values, last).sum(1)


def _start(values: Tensor, last: Tensor | None) -> Tensor:
    return values.new_zeros(len(values)) if last is None else last.to(values)

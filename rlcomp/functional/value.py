"""Value losses and explained variance."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ShapeError
from rlcomp.functional.group_statistics import is_rounding


def value_error(value: Tensor, returns: Tensor) -> Tensor:
    """Compute the squared value error, ``(V - G)^2 / 2``.

    Args:
        value: shape ``[B, T]``, in reward units, with gradient.
        returns: shape ``[B, T]``, in reward units.

    Returns:
        Shape ``[B, T]``, in squared reward units.

    Raises:
        ShapeError: the two tensors differ in shape.

    Source:
        Schulman et al. 2017, arXiv:1707.06347, eq. 9.

    Examples:
        >>> value_error(torch.tensor([[1.0]]), torch.tensor([[3.0]]))
        tensor([[2.]])
    """
    _check_shapes(value=value, returns=returns)
    return 0.5 * (value - returns.detach()).square()


def clipped_value_error(value: Tensor, old_value: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Compute PPO's clipped value error.

    ``max((V - G)^2, (V' - G)^2) / 2`` with ``V' = clip(V, V_old - clip, V_old + clip)``.

    The gradient is 0 if ``V'`` is at a bound and its error is the larger one; otherwise it is the
    gradient of the unclipped error.

    Args:
        value: shape ``[B, T]``, in reward units, with gradient.
        old_value: the critic's value before the update, shape ``[B, T]``, in reward units.
        returns: shape ``[B, T]``, in reward units.
        clip: largest change of the value, in reward units, > 0.

    Returns:
        Shape ``[B, T]``, in squared reward units.

    Raises:
        ShapeError: the tensors differ in shape.

    Source:
        The authors' code of PPO (openai/baselines, ppo2); the paper has no value clip.

    Examples:
        >>> clipped_value_error(*torch.tensor([[1.0], [0.0], [1.0]]), clip=0.2)
        tensor([0.3200])
    """
    _check_shapes(value=value, old_value=old_value, returns=returns)
    old = old_value.detach()
    near = value.clamp(old - clip, old + clip)
    return torch.maximum(value_error(value, returns), value_error(near, returns))


def explained_variance(value: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """Compute the explained variance, ``1 - Var(G - V) / Var(G)`` over the tokens inside the mask.

    1 is perfect; 0 is no better than a constant; below 0 is worse.

    Args:
        value: shape ``[B, T]``, in reward units.
        returns: shape ``[B, T]``, in reward units.
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[]``, dimensionless, float64; NaN if the returns do not vary.

    Raises:
        ShapeError: the tensors differ in shape.

    Source:
        The authors' code of PPO (openai/baselines, ``explained_variance``): the coefficient of
        determination of a critic's predictions.

    Examples:
        >>> mask = torch.ones(1, 4, dtype=torch.bool)
        >>> returns = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
        >>> explained_variance(returns / 2, returns, mask)
        tensor(0.7500, dtype=torch.float64)
    """
    _check_shapes(value=value, returns=returns, mask=mask)
    known, wanted = value.detach()[mask].double(), returns.detach()[mask].double()
    if not len(wanted) or bool(is_rounding(wanted.min(), wanted.max())):
        return torch.full((), torch.nan, dtype=torch.float64, device=value.device)
    return 1 - (wanted - known).var(correction=0) / wanted.var(correction=0)


def _check_shapes(value: Tensor, **others: Tensor) -> None:
    for name, other in others.items():
        if other.shape != value.shape:
            raise ShapeError(
                f"'{name}' has shape {list(other.shape)}, but 'value' has {list(value.shape)}"
            )

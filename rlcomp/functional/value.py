"""Losses of values, and priorities of replay."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ShapeError
from rlcomp.functional.group_statistics import is_rounding


def value_error(value: Tensor, returns: Tensor) -> Tensor:
    """Compute the squared value error, ``(V - G)^2 / 2``.

    Shapes ``[B, T]``, in reward units; ShapeError if they differ.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 9.

    Examples:
        >>> value_error(torch.tensor([[1.0]]), torch.tensor([[3.0]]))
        tensor([[2.]])
    """
    _check_shapes(value=value, returns=returns)
    return 0.5 * (value - returns.detach()).square()


def clipped_value_error(value: Tensor, old_value: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Compute PPO's clipped value error.

    ``max((V - G)^2, (V' - G)^2) / 2`` with ``V' = clip(V, V_old - clip, V_old + clip)``; ``V_old``
    is the value before the update, and ``clip`` is in reward units. Shapes ``[B, T]``; ShapeError
    if they differ. The gradient is 0 if ``V'`` is at a bound and its error is the larger one;
    otherwise it is the gradient of the unclipped error. It does not reach ``V_old`` and ``G``.

    Source: The authors' code of PPO (openai/baselines, ppo2); the paper has no value clip.

    Examples:
        >>> clipped_value_error(*torch.tensor([[1.0], [0.0], [1.0]]), clip=0.2)
        tensor([0.3200])
    """
    _check_shapes(value=value, old_value=old_value, returns=returns)
    old = old_value.detach()
    near = value.clamp(old - clip, old + clip)
    return torch.maximum(value_error(value, returns), value_error(near, returns))


def explained_variance(value: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """Compute ``1 - Var(G - V) / Var(G)`` over the tokens inside the mask, a float64 scalar.

    1 is perfect; 0 is no better than a constant; below 0 is worse; NaN if the returns do not vary.

    Source: The authors' code of PPO (openai/baselines, ``explained_variance``): the coefficient of
    determination of a critic's predictions.

    Examples:
        >>> mask = torch.ones(1, 4, dtype=torch.bool)
        >>> returns = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
        >>> explained_variance(returns / 2, returns, mask)
        tensor(0.7500, dtype=torch.float64)
    """
    _check_shapes(value=value, returns=returns, mask=mask)
    prediction, target = value.detach()[mask].double(), returns.detach()[mask].double()
    if not len(target) or bool(is_rounding(target.min(), target.max())):
        return torch.full((), torch.nan, dtype=torch.float64, device=value.device)
    return 1 - (target - prediction).var(correction=0) / target.var(correction=0)


def _check_shapes(value: Tensor, **others: Tensor) -> None:
    for name, other in others.items():
        if other.shape != value.shape:
            raise ShapeError(
                f"'{name}' has shape {list(other.shape)}, but 'value' has {list(value.shape)}"
            )


def priority_probability(priority: Tensor, alpha: float) -> Tensor:
    """Compute ``P(i) = p_i^alpha / sum_j p_j^alpha``, float64; ``alpha`` 0 is uniform.

    ``priority`` ``p`` and the result are ``[R]``; priorities are above 0.

    Source: Schaul et al. 2016, arXiv:1511.05952, eq. 1.

    Examples:
        >>> priority_probability(torch.tensor([1.0, 3.0]), 1.0)
        tensor([0.2500, 0.7500], dtype=torch.float64)
    """
    powered = priority.double() ** alpha
    return powered / powered.sum()


def importance_weight(probability: Tensor, rows: int, beta: float) -> Tensor:
    """Compute ``w_i = (R P(i))^-beta``, divided by the greatest of these weights, float32.

    ``probability`` ``P(i)`` of the drawn rows and the result are ``[N]``; ``rows`` ``R`` is the
    number of rows to draw from. ``beta`` 1 corrects the priorities fully, 0 not at all.

    Source: Schaul et al. 2016, arXiv:1511.05952, section 3.4.

    Examples:
        >>> importance_weight(torch.tensor([0.25, 0.75]), 2, 1.0)
        tensor([1.0000, 0.3333])
    """
    weight = (rows * probability.double()) ** -beta
    return (weight / weight.amax()).float()


def draw_by_probability(probability: Tensor, draws: Tensor) -> Tensor:
    """Draw rows by inversion: the first with a cumulative probability above the draw in [0, 1).

    ``probability`` is ``[R]``, ``draws`` and the result (int64) are ``[N]``.

    Examples:
        >>> draw_by_probability(torch.tensor([0.25, 0.75]), torch.tensor([0.2, 0.25, 0.9]))
        tensor([0, 1, 1])
    """
    total = probability.double().cumsum(0)
    # A double below 1 times the total is below the total, after rounding too.
    return torch.searchsorted(total, draws.double() * total[-1], right=True)

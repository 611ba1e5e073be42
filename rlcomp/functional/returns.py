"""Returns and advantages of episodes, by linear recurrences.

Tensors are ``[B, T]``, in reward units. ``mask`` selects the steps of the episode and may have
holes; results are 0 outside it. ``value`` is the value of the state before the token,
``last_value`` ``[B]`` that after the last step (None: 0). ``gamma`` is a discount per step inside
the mask.

The estimators, :func:`reward_to_go` to :func:`vtrace`, raise ShapeError if tensors differ in shape
and NumericalError if an entry inside the mask is not finite. The recurrences do not check.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import NumericalError, ShapeError
from rlcomp.functional.reduction import masked


def finite_values(name: str, values: Tensor, mask: Tensor) -> Tensor:
    """Return the values inside the mask, in float32 at least; exactly 0 outside.

    ``name`` is the name of the values in errors: ShapeError if the shapes differ, NumericalError if
    a value inside the mask is not finite.

    Examples:
        >>> nan = float("nan")
        >>> finite_values("value", torch.tensor([[1.0, nan]]), torch.tensor([[True, False]]))
        tensor([[1., 0.]])
    """
    if values.shape != mask.shape:
        raise ShapeError(f"'{name}' has shape {list(values.shape)}, 'mask' {list(mask.shape)}")
    selected = masked(values if values.dtype == torch.float64 else values.float(), mask)
    if not bool(selected.isfinite().all()):
        row, column = (~selected.isfinite()).nonzero()[0].tolist()
        raise NumericalError(f"'{name}' is {float(selected[row, column])} at [{row}, {column}]")
    return selected


def next_value(values: Tensor, mask: Tensor, last: Tensor | None = None) -> Tensor:
    """Return the value at the next position inside the mask; ``last`` where there is none.

    ``last`` is ``[B]``; None is 0. The result is ``[B, T]`` and is also set outside the mask.

    Examples:
        >>> next_value(torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[True, False, True]]))
        tensor([[2., 2., 0.]])
    """
    # The least column after t inside the mask; column ``width`` holds ``last`` and always counts.
    width = values.shape[1]
    column = torch.arange(width + 1, device=values.device).expand(len(values), -1)
    end = mask.new_ones(len(mask), 1)
    column = torch.where(torch.cat([mask, end], 1), column, width)[:, 1:]
    next_column = column.flip(1).cummin(1).values.flip(1)
    return torch.cat([values, _last_or_zeros(values, last)[:, None]], 1).gather(1, next_column)


def accumulate(
    terms: Tensor, decay: Tensor | float, mask: Tensor, last: Tensor | None = None
) -> Tensor:
    """Compute the backward recurrence ``x_t = terms_t + decay_t * x_next(t)`` inside the mask.

    ``decay`` broadcasts to ``[B, T]``; ``last`` ``[B]`` is x after the last position inside the
    mask (None: 0).

    Examples:
        >>> mask = torch.tensor([[True, False, True]])
        >>> accumulate(torch.tensor([[1.0, 9.0, 2.0]]), 0.5, mask)
        tensor([[2., 0., 2.]])
    """
    factor = torch.as_tensor(decay, dtype=terms.dtype, device=terms.device).expand_as(terms)
    total, sums = _last_or_zeros(terms, last), torch.zeros_like(terms)
    for t in reversed(range(terms.shape[1])):
        total = torch.where(mask[:, t], terms[:, t] + factor[:, t] * total, total)
        sums[:, t] = total
    return masked(sums, mask)


def last_inside(values: Tensor, mask: Tensor) -> Tensor:
    """Return the value at the last position inside the mask, ``[B]``; 0 in empty rows.

    Examples:
        >>> last_inside(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[True, True, False]]))
        tensor([2.])
    """
    last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
    return masked(values, last).sum(1)


def _last_or_zeros(values: Tensor, last: Tensor | None) -> Tensor:
    return values.new_zeros(len(values)) if last is None else last.to(values)


def reward_to_go(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Compute the discounted reward-to-go, ``G_t = r_t + gamma * G_{t+1}``.

    Source: Williams 1992; Sutton & Barto 2018, eq. 3.9.

    Examples:
        >>> mask = torch.tensor([[True, False, True]])
        >>> reward_to_go(torch.tensor([[0.0, 7.0, 1.0]]), mask, gamma=0.5)
        tensor([[0.5000, 0.0000, 1.0000]])
    """
    mask = mask.bool()
    return accumulate(finite_values("rewards", rewards, mask), gamma, mask)


def gae(
    rewards: Tensor,
    value: Tensor,
    mask: Tensor,
    gamma: float,
    gae_lambda: float | Tensor,
    last_value: Tensor | None = None,
) -> Tensor:
    """Compute the generalised advantage estimate (GAE).

    ``A_t = delta_t + gamma * lambda * A_{t+1}`` with ``delta_t = r_t + gamma * V_{t+1} - V_t``.
    ``gae_lambda`` is a number or ``[B]``. ``A + V`` is :func:`td_lambda_returns`.

    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16.

    Examples:
        >>> rewards, value = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
        >>> gae(rewards, value, torch.tensor([[True, True]]), gamma=1.0, gae_lambda=0.5)
        tensor([[0.2500, 0.5000]])
    """
    mask = mask.bool()
    rewards, value = finite_values("rewards", rewards, mask), finite_values("value", value, mask)
    error = rewards + gamma * next_value(value, mask, last_value) - value
    return accumulate(error, gamma * _per_row(gae_lambda), mask)


def td_lambda_returns(
    rewards: Tensor,
    value: Tensor,
    mask: Tensor,
    gamma: float,
    gae_lambda: float | Tensor,
    last_value: Tensor | None = None,
) -> Tensor:
    """Compute TD(lambda) returns.

    ``G_t = r_t + gamma * ((1 - lambda) * V_{t+1} + lambda * G_{t+1})``. ``gae_lambda`` is a number
    or ``[B]``: 0 looks one step ahead, 1 to the end.

    Source: Sutton & Barto 2018, eq. 12.18.

    Examples:
        >>> rewards, value = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
        >>> td_lambda_returns(rewards, value, torch.tensor([[True, True]]), 1.0, 0.5)
        tensor([[0.7500, 1.0000]])
    """
    mask = mask.bool()
    rewards, value = finite_values("rewards", rewards, mask), finite_values("value", value, mask)
    trace = _per_row(gae_lambda)
    ahead = gamma * (1 - trace) * next_value(value, mask, last_value)
    return accumulate(rewards + ahead, gamma * trace, mask, last_value)


def length_adaptive_lambda(mask: Tensor, alpha: float) -> Tensor:
    """Compute VAPO's length-adaptive lambda, ``[B]``, float64.

    ``lambda_i = clip(1 - 1 / (alpha * n_i), 0, 1)``, so that the weights ``lambda^k`` sum to about
    ``alpha * n_i``. Without the clip it is negative for responses shorter than ``1 / alpha``.

    Source: VAPO, arXiv:2504.05118, section 4.1.

    Examples:
        >>> length_adaptive_lambda(torch.ones(1, 40).bool(), alpha=0.05)
        tensor([0.5000], dtype=torch.float64)
    """
    length = mask.bool().sum(1, dtype=torch.float64)
    return (1 - 1 / (alpha * length)).clamp(0, 1)


def _per_row(gae_lambda: float | Tensor) -> float | Tensor:
    return gae_lambda[:, None] if isinstance(gae_lambda, Tensor) else gae_lambda


def vtrace(
    rewards: Tensor,
    value: Tensor,
    ratio: Tensor,
    mask: Tensor,
    gamma: float,
    rho_max: float,
    c_max: float,
    last_value: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute V-trace advantages and returns ``vs`` (IMPALA), ``[B, T]`` each.

    ``vs_t = V_t + rho_t (r_t + gamma * V_{t+1} - V_t) + gamma * c_t (vs_{t+1} - V_{t+1})`` with
    ``rho_t = min(rho_max, ratio_t)``, ``c_t = min(c_max, ratio_t)``. The advantage is
    ``rho_t * (r_t + gamma * vs_{t+1} - V_t)``.

    ``ratio`` is pi / mu, the policy over the behaviour policy. ``rho_max`` decides whose value
    ``vs`` estimates: a policy between ``mu`` and ``pi``, which is ``pi`` without a bound. ``c_max``
    decides the speed of convergence.
    On-policy, with both caps at 1 or more, ``vs`` is the discounted return.

    Source: Espeholt et al. 2018, arXiv:1802.01561, eq. 1 and section 4.2.

    Examples:
        >>> mask, value = torch.ones(1, 2).bool(), torch.tensor([[0.5, 0.5]])
        >>> rewards, ratio = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 2.0]])
        >>> vtrace(rewards, value, ratio, mask, gamma=1.0, rho_max=1.0, c_max=1.0)
        (tensor([[0.2500, 0.5000]]), tensor([[0.7500, 1.0000]]))
    """
    mask = mask.bool()
    rewards, value = finite_values("rewards", rewards, mask), finite_values("value", value, mask)
    ratio = finite_values("ratio", ratio, mask)
    rho, trace = ratio.clamp(max=rho_max), ratio.clamp(max=c_max)
    error = rho * (rewards + gamma * next_value(value, mask, last_value) - value)
    returns = value + accumulate(error, gamma * trace, mask)
    advantage = rho * (rewards + gamma * next_value(returns, mask, last_value) - value)
    return masked(advantage, mask), returns

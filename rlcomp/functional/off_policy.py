"""Corrections for data of another policy."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlcomp.functional.reduction import masked
from rlcomp.functional.returns import accumulate, following, inside


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
    """Compute V-trace advantages and returns (IMPALA).

    ``vs_t = V_t + rho_t (r_t + gamma * V_{t+1} - V_t) + gamma * c_t (vs_{t+1} - V_{t+1})`` with
    ``rho_t = min(rho_max, ratio_t)``, ``c_t = min(c_max, ratio_t)``.

    On-policy, with both caps at 1 or more, ``vs`` is the discounted return.

    Args:
        rewards: shape ``[B, T]``, in reward units.
        value: value of the state before the token, shape ``[B, T]``, in reward units.
        ratio: probability under the learning policy over that under the sampling policy, ``[B,
            T]``.
        mask: shape ``[B, T]``, the steps of the episode; may have holes.
        gamma: discount per step inside the mask.
        rho_max: cap of the weight of a step; it decides which policy's value ``vs`` is.
        c_max: cap of the weight of later steps; it decides how fast ``vs`` gets there.
        last_value: value of the state after the last step, shape ``[B]``; None if episodes end
            there.

    Returns:
        The advantage ``rho_t * (r_t + gamma * vs_next - V_t)`` and the returns ``vs``, both of
        shape ``[B, T]``, in reward units, 0 outside the mask.

    Raises:
        ShapeError: the tensors differ in shape.
        NumericalError: an entry inside the mask is not finite.

    Source:
        Espeholt et al. 2018, arXiv:1802.01561, eq. 1 and section 4.2.

    Examples:
        >>> import torch
        >>> mask, value = torch.ones(1, 2).bool(), torch.tensor([[0.5, 0.5]])
        >>> rewards, ratio = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 2.0]])
        >>> vtrace(rewards, value, ratio, mask, gamma=1.0, rho_max=1.0, c_max=1.0)
        (tensor([[0.2500, 0.5000]]), tensor([[0.7500, 1.0000]]))
    """
    mask = mask.bool()
    rewards, value = inside("rewards", rewards, mask), inside("value", value, mask)
    ratio = inside("ratio", ratio, mask)
    rho, trace = ratio.clamp(max=rho_max), ratio.clamp(max=c_max)
    error = rho * (rewards + gamma * following(value, mask, last_value) - value)
    returns = value + accumulate(error, gamma * trace, mask)
    advantage = rho * (rewards + gamma * following(returns, mask, last_value) - value)
    return masked(advantage, mask), returns


def gamma_weight(
    ratio: Tensor,
    advantage: Tensor,
    shape: tuple[float, float],
    rate: tuple[float, float],
) -> Tensor:
    """Compute VESPO's weight of an importance ratio: ``phi(r) = r^k exp(lambda (1 - r))``.

    It is 1 at ratio 1, largest at ``k / lambda``, and near 0 for ratios near 0 and for large ones.

    Args:
        ratio: shape ``[B, T]``, positive.
        advantage: shape ``[B, T]``; its sign selects shape and rate.
        shape: k for advantages of at least 0, and k for negative ones.
        rate: lambda for advantages of at least 0, and lambda for negative ones.

    Returns:
        Shape ``[B, T]``, dimensionless, detached.

    Source:
        Shen et al. 2026 (VESPO), arXiv:2602.10693; scaled to ``phi(1) = 1`` as in TRL.

    Examples:
        >>> ratio, advantage = torch.tensor([[1.0, 2.0, 2.0]]), torch.tensor([[1.0, 1.0, -1.0]])
        >>> gamma_weight(ratio, advantage, (2.0, 3.0), (3.0, 2.0))
        tensor([[1.0000, 0.1991, 1.0827]])
    """
    ratio, positive = ratio.detach(), advantage >= 0
    k = torch.where(positive, ratio.new_tensor(shape[0]), ratio.new_tensor(shape[1]))
    decay = torch.where(positive, ratio.new_tensor(rate[0]), ratio.new_tensor(rate[1]))
    return (k * ratio.log() + decay * (1 - ratio)).exp()


def episode_order(trajectory: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Sort rows by episode, and locate the end of each row's episode in this order.

    Args:
        trajectory: the episode of each row, ``[R]`` int64.
        step: the row's position within the episode, ``[R]`` int64.

    Returns:
        ``order`` ``[R]``: rows sorted by episode, then by step. ``last`` ``[R]``: for each place in
        that order, the place of the last step of its episode.

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


def future_places(place: Tensor, last: Tensor, uniform: Tensor) -> Tensor:
    """Draw a later step of the same episode, or the step itself: ``f`` uniform in ``t..T-1``.

    The goal is the state achieved *after* step ``f``: ``f = t`` asks for the next state.

    Args:
        place: places of the steps in the order of their episodes, ``[N]``.
        last: the place of the last step of each step's episode, ``[N]``.
        uniform: draws in [0, 1), ``[N]``.

    Returns:
        Places, ``[N]`` int64.

    Source:
        Andrychowicz et al. 2017, arXiv:1707.01495, section 3.3, strategy ``future``.
    """
    left = last - place + 1
    # In float32 the product may round up to ``left``.
    return place + torch.minimum((uniform * left).long(), left - 1)


def geometric_places(place: Tensor, last: Tensor, uniform: Tensor, gamma: float) -> Tensor:
    """Draw a later step of the same episode, ``k`` steps on with ``p(k) ~ gamma^k``, k >= 0.

    The goal is the state achieved *after* that step, ``k + 1`` steps away: a draw from the
    discounted future of the state and action, cut at the episode's end.

    Args:
        place: places of the steps in the order of their episodes, ``[N]``.
        last: the place of the last step of each step's episode, ``[N]``.
        uniform: draws in [0, 1), ``[N]``.
        gamma: discount, in (0, 1).

    Returns:
        Places, ``[N]`` int64.

    Source:
        Eysenbach et al. 2022, arXiv:2206.07568, section 4.1.
    """
    left = last - place + 1
    within = 1 - gamma ** left.double()  # probability that the draw ends within the episode
    ahead = torch.log1p(-uniform.double() * within) / math.log(gamma)
    return place + torch.minimum(ahead.long(), left - 1)

"""Hindsight relabelling: draws of the later step whose outcome becomes a step's new goal."""

from __future__ import annotations

import math

import torch
from torch import Tensor


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

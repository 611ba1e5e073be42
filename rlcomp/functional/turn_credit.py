"""Turn-level credit: returns of turns, GiGPO, MT-GRPO and VinePPO.

``reward``, ``value`` and results are ``[E, K]``, in reward units: K turns of E episodes. ``exists``
is the mask of the turns that an episode has, the first ones; results are 0 elsewhere. ``gamma`` is
a discount per turn, not per token. Tensors are on the CPU. GAE over turns is
:func:`rlcomp.functional.returns.gae`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.group_statistics import Groups


def turn_returns(reward: Tensor, gamma: float) -> Tensor:
    """Compute the discounted return-to-go of turns, ``G_k = sum_{l >= k} gamma^(l - k) r_l``.

    ``reward`` is 0 at turns that do not exist.

    Examples:
        >>> turn_returns(torch.tensor([[1.0, 0.0, 4.0]]), 0.5)
        tensor([[2., 2., 4.]])
    """
    returns = torch.empty_like(reward)
    ahead = reward.new_zeros(len(reward))
    for turn in reversed(range(reward.shape[1])):
        ahead = returns[:, turn] = reward[:, turn] + gamma * ahead
    return returns


def other_episodes_mean(value: Tensor, exists: Tensor, cell: Tensor, episode: Tensor) -> Tensor:
    """Average the values of the visits of other episodes to the same cell, ``[N]``.

    NaN if there are no such visits.

    Args:
        value: value of each visit, shape ``[N]``.
        exists: visits that count, bool, shape ``[N]``.
        cell: cell of each visit, int64, shape ``[N]``, from 0.
        episode: episode of each visit, int64, shape ``[N]``, from 0.
    """
    # A number for each pair of a cell and an episode.
    pair = cell * (int(episode.max()) + 1 if len(episode) else 1) + episode
    value = torch.where(exists, value, torch.zeros_like(value))
    cell_total, cell_count = (_sums(each, cell) for each in (value, exists.to(value)))
    pair_total, pair_count = (_sums(each, pair) for each in (value, exists.to(value)))
    # 0 / 0 without visits of other episodes.
    return (cell_total - pair_total) / (cell_count - pair_count)


def _sums(value: Tensor, index: Tensor) -> Tensor:
    """Return for each entry the sum over all entries with its index."""
    _, number = torch.unique(index, return_inverse=True)
    count = int(number.max()) + 1 if len(number) else 0
    return value.new_zeros(count).index_add(0, number, value)[number]


def gigpo_steps(
    returns: Tensor,
    anchor: Tensor,
    countable: Tensor,
    group: Tensor,
    *,
    baseline: str,
    epsilon: float | None,
) -> tuple[Tensor, Tensor]:
    """Compute GiGPO's step advantage: a turn's return against turns in the same state.

    ``A^S_k = (G_k - b) / F`` over the step group: all visits to the state by the episodes of a
    group. ``b`` is the mean over the step group, or over the visits of other episodes alone; the
    latter gives an unbiased expected gradient. ``F = std + epsilon`` or 1.

    Args:
        returns: shape ``[E, K]``, reward units.
        anchor: the state of each turn, int64, shape ``[E, K]``; negative if unknown, with advantage
            0.
        countable: existing turns of valid episodes, bool, shape ``[E, K]``.
        group: group of each episode, int64, shape ``[E]``.
        baseline: ``"group"`` or ``"others"``.
        epsilon: added to the standard deviation; None for no division.

    Returns:
        The advantage, 0 in groups of one visit and of equal returns, and with ``others`` where no
            other episode visits the state; and the size of the step group of each turn, 0 for turns
            without one.

    Source: Feng et al. 2025, arXiv:2505.10978, eq. 7; ``others`` is an addition.
    """
    valid = (countable & (anchor >= 0)).flatten()
    episodes, turns = returns.shape
    episode = torch.arange(episodes)[:, None].expand(-1, turns).flatten()
    _, group_number = torch.unique(group, return_inverse=True)
    state = torch.stack([group_number[episode], anchor.flatten()], 1)
    _, cell = torch.unique(state, dim=0, return_inverse=True)
    # A visit that does not count has a negative cell of its own.
    cells = Groups(returns.flatten(), torch.where(valid, cell, -1 - torch.arange(len(cell))), valid)
    centred = cells.centred()
    if baseline == "others":
        mean = other_episodes_mean(returns.flatten(), valid, cell, episode)
        apart = valid & ~mean.isnan()
        centred = torch.where(apart, returns.flatten() - mean, torch.zeros_like(centred))
    if epsilon is not None:
        centred = cells.where_comparable(centred / (cells.std() + epsilon))
    sizes = torch.where(valid, cells.count, torch.zeros_like(cells.count))
    return centred.view(episodes, turns), sizes.view(episodes, turns)


def mt_grpo_turns(
    reward: Tensor, exists: Tensor, valid: Tensor, group: Tensor, epsilon: float
) -> Tensor:
    """Standardise a turn's reward over the same turns of the group (MT-GRPO), dimensionless.

    ``A_ik = (r_ik - mean_g(r_k)) / (std_g(r_k) + epsilon)``, ``[E, K]``. Only turns that are not
    the last of their episode count; a group with fewer than two such turns, or with equal rewards,
    has 0. ``valid`` (bool) and ``group`` (int64) are ``[E]``.

    Source: Zeng et al. 2025, arXiv:2505.11821.
    """
    parts = []
    for turn in range(reward.shape[1]):
        later = exists[:, turn + 1 :].any(1)
        groups = Groups(reward[:, turn], group, valid & exists[:, turn] & later)
        parts.append(groups.where_comparable(groups.centred() / (groups.std() + epsilon)))
    return torch.stack(parts, 1)


def vine_advantage(reward: Tensor, value: Tensor, exists: Tensor) -> Tensor:
    """Compute VinePPO's advantage of turns, ``A_k = V_{k+1} - V_k``; ``V_K`` is the reward ``[E]``.

    ``value`` is the mean reward of episodes that continue from before a turn, NaN if unknown. Where
    either value is NaN, the advantage is 0. ``V_K`` follows an episode's last turn.

    Source: Kazemnejad et al. 2024, arXiv:2410.01679 (VinePPO), section 4.

    Examples:
        >>> value, exists = torch.tensor([[0.25, 0.5]]), torch.tensor([[True, True]])
        >>> vine_advantage(torch.tensor([1.0]), value, exists)
        tensor([[0.2500, 0.5000]])
    """
    ahead = torch.cat([value[:, 1:], torch.zeros_like(value[:, :1])], 1)
    last = exists & (exists.flip(1).cumsum(1).flip(1) == 1)
    advantage = torch.where(last, reward[:, None], ahead) - value
    return torch.where(exists & ~advantage.isnan(), advantage, torch.zeros_like(advantage))

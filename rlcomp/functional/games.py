"""Values of games: tournaments, matrix games, and PretrainZero's mask game.

In the mask game a generator proposes spans of a text to mask, and a predictor fills each masked
span several times.
"""

from __future__ import annotations

import torch
from torch import Tensor


def win_rates(beats: Tensor) -> Tensor:
    """Compute the mean win probability ``[N]`` of each player, ``mean_j p(i beats j)``.

    ``beats`` is ``[N, N]``; NaN if the two have not met, and the diagonal does not count. NaN for a
    player without opponents.

    Examples:
        >>> win_rates(torch.tensor([[0.0, 1.0, 0.5], [0.0, 0.0, 1.0], [0.5, 0.0, 0.0]]))
        tensor([0.7500, 0.5000, 0.2500])
    """
    diagonal = torch.eye(len(beats), dtype=torch.bool, device=beats.device)
    return beats.masked_fill(diagonal, torch.nan).nanmean(1)


def ranks(scores: Tensor) -> Tensor:
    """Compute the share of the others with a lower score, ``[N]``; ties count half.

    A NaN score takes no part. NaN if the score is NaN or the only score.

    Examples:
        >>> ranks(torch.tensor([0.9, 0.2, 0.2, 0.1]))
        tensor([1.0000, 0.5000, 0.5000, 0.0000])
    """
    gap = scores[:, None] - scores[None, :]
    ahead = torch.where(gap.isnan(), torch.nan, (gap > 0) + 0.5 * (gap == 0))
    return win_rates(ahead.to(scores.dtype))


def exploitability(first: Tensor, second: Tensor, payoffs: Tensor) -> Tensor:
    """Compute the exploitability: ``e(x, y) = (max_a (U y)_a - min_b (x^T U)_b) / 2``.

    ``payoffs`` ``U`` ``[A, B]`` are payments from the second to the first player, in reward units;
    ``first`` ``x`` ``[A]`` and ``second`` ``y`` ``[B]`` are mixed strategies. The result is a
    scalar in reward units. It is the mean, over both players, of the gain of a best
    response over the value of the game (NashConv / 2): 0 exactly at an equilibrium.

    Source: Lanctot et al. 2017, arXiv:1711.00832, section 2 (NashConv).

    Examples:
        >>> pennies = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
        >>> exploitability(torch.tensor([0.8, 0.2]), torch.tensor([0.5, 0.5]), pennies)
        tensor(0.3000)
    """
    return ((payoffs @ second).max() - (first @ payoffs).min()) / 2


def count_answers(
    answer_group: Tensor, group_id: Tensor, right: Tensor, answers: Tensor
) -> tuple[Tensor, Tensor]:
    """Count the right predictions, and all predictions, for each proposal, float32 ``[B]`` each.

    All arguments are ``[B]``. ``answer_group`` is the ``group_id`` of the answers to the row's
    question; an id that no row has, such as -1, marks a question without answers and counts 0.
    ``right`` and ``answers`` are bool: right predictions, and the rows that answer a question.

    Source: PretrainZero, arXiv:2512.03442: a mask's accuracy is the accuracy of its predictions.

    Examples:
        >>> group, right = torch.tensor([0, 5, 5, 6]), torch.tensor([False, True, False, True])
        >>> count_answers(torch.tensor([5, 5, 5, 6]), group, right, group > 0)
        (tensor([1., 1., 1., 1.]), tensor([2., 2., 2., 1.]))
    """
    groups, index = torch.unique(group_id, return_inverse=True)
    position = torch.searchsorted(groups, answer_group).clamp(max=len(groups) - 1)
    answered = groups[position] == answer_group
    counts = []
    for selected in (right & answers, answers):
        totals = torch.zeros(len(groups), device=index.device).index_add_(
            0, index, selected.float()
        )
        counts.append(torch.where(answered, totals[position], 0.0))
    return counts[0], counts[1]


def generator_reward(successes: Tensor, attempts: Tensor, target: float = 0.0) -> Tensor:
    """Compute the reward of a mask proposal (PretrainZero's generator).

    ``R = 1 - |p - p*| / max(p*, 1 - p*)`` if ``p > 0``, else 0, with ``p = successes / attempts``
    the accuracy of its predictions and ``target`` ``p*``. ``successes``, ``attempts`` and the
    result are ``[B]``. ``p* = 0`` gives the paper's ``1 - p``. A mask
    without a right prediction gets 0, since it may be noise; otherwise ``p* = 0.25`` would give it
    2/3.

    Source: PretrainZero, arXiv:2512.03442 (``p* = 0``); the target is an addition.

    Examples:
        >>> eight = torch.full((5,), 8)
        >>> generator_reward(torch.tensor([0, 1, 4, 7, 8]), eight)
        tensor([0.0000, 0.8750, 0.5000, 0.1250, 0.0000])
    """
    accuracy = successes.float() / attempts.clamp(min=1)
    reward = 1 - (accuracy - target).abs() / max(target, 1 - target)
    return torch.where(successes > 0, reward, torch.zeros_like(reward))

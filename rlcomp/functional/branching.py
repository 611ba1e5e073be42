"""Branching rollouts (ARPO): probability of a branch, and advantages of the rows of a tree.

Functions of rewards raise NumericalError if a valid reward is not finite.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rlcomp.functional.group_statistics import Groups


def normalised_entropy(logits: Tensor) -> Tensor:
    """Compute the entropy divided by its maximum, ``[N]``: ``H = -sum_v p_v log p_v / log V``.

    ``logits`` are ``[N, V]``, ``V`` at least 2; the result is at least float32, from 0 to 1.

    Source: Dong et al. 2025 (ARPO), arXiv:2507.19849, section 3.2; over the whole vocabulary.

    Examples:
        >>> normalised_entropy(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]))
        tensor([1., 0.])
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    entropy: Tensor = torch.special.entr(logits.softmax(-1)).sum(-1)
    return entropy / math.log(logits.shape[-1])


def branch_probability(delta_entropy: Tensor, probability: float, entropy_weight: float) -> Tensor:
    """Compute ARPO's probability of a branch, ``clip(p0 + w dH, 0, 1)``.

    ``delta_entropy`` ``dH`` ``[N]`` is the normalised entropy minus the first turn's normalised
    entropy; ``probability`` is ``p0``, ``entropy_weight`` ``w``. The result is ``[N]``.

    Source: Dong et al. 2025 (ARPO), arXiv:2507.19849, eq. 4, as in the authors' code.

    Examples:
        >>> branch_probability(torch.tensor([-1.0, 0.0, 3.0]), 0.5, 0.2)
        tensor([0.3000, 0.5000, 1.0000])
    """
    return (probability + entropy_weight * delta_entropy).clamp(0.0, 1.0)


def shared_prefixes(tokens: Tensor, group_id: Tensor) -> Tensor:
    """Return an id for each token, equal in the rows of a group that agree up to this token.

    ``tokens`` and ids are ``[B, T]``, ``group_id`` ``[B]``. The ids of two rows at ``t`` are equal
    if and only if the rows are in one group and their tokens ``0 .. t`` are equal.

    Examples:
        >>> shared_prefixes(torch.tensor([[5, 6, 7], [5, 8, 7]]), torch.tensor([0, 0]))
        tensor([[0, 1, 3],
                [0, 2, 4]])
    """
    node, columns, nodes = group_id, list[Tensor](), 0
    # A prefix is the id of the prefix before it and one token.
    for column in tokens.T:
        _, node = torch.unique(torch.stack([node, column], 1), dim=0, return_inverse=True)
        columns.append(node + nodes)
        nodes += int(node.max()) + 1 if len(node) else 0
    return torch.stack(columns, 1) if columns else torch.zeros_like(tokens)


def hard_attribution(advantage: Tensor, mask: Tensor, tokens: Tensor, group_id: Tensor) -> Tensor:
    """Average the advantages of the ``d`` rows that share a token (ARPO, hard attribution).

    ``A_it = (1 / d) sum_{j in D} A_jt``. ``D`` are the rows of the group that have the same tokens
    (prompt and response) up to ``t`` and have ``t`` inside their mask. 0 outside the mask.
    ``advantage``, ``mask``, ``tokens`` and the result are ``[B, T]``, ``group_id`` is ``[B]``.

    Source: Dong et al. 2025 (ARPO), arXiv:2507.19849, section 3.3 (hard advantage estimation).
    """
    node = shared_prefixes(tokens, group_id)[mask]
    inside = advantage[mask]
    total = inside.new_zeros(int(node.max()) + 1 if len(node) else 0)
    count = torch.zeros_like(total).index_add_(0, node, torch.ones_like(inside))
    mean = total.index_add_(0, node, inside) / count.clamp(min=1)
    return torch.zeros_like(advantage).masked_scatter(mask, mean[node])


# A sum of shares of at most this is a rounding error of 0.
_ZERO_SHARE = 1e-6


def share_centred(
    reward: Tensor,
    share: Tensor,
    root: Tensor,
    group_id: Tensor,
    valid: Tensor,
    *,
    others: bool,
) -> Tensor:
    """Centre rewards in their group; a row counts for its share of an independent episode.

    ``A_i = R_i - sum_j s_j R_j / sum_j s_j`` over the valid rows of the group; with ``others`` over
    the valid rows of the group's other trees. ``share`` ``s_i`` is the product of
    1 / (number of continuations) over the branchings of a row, ``root`` the id of its tree. All
    arguments and the result are ``[B]``; the result is in reward units.

    With ``others`` the baseline does not depend on the row's own tree. Hence the expectations of
    ``sum_i s_i A_i grad log pi(y_i)`` and of ``sum_i s_i R_i grad log pi(y_i)`` are equal. ``A`` is
    exactly 0 for invalid rows, in groups of equal rewards, and with ``others`` also where the group
    has no other tree.

    Source: The control variate of Kool et al. 2019, over trees in place of samples.
    """
    groups = Groups(reward, group_id, valid)
    share = torch.where(groups.valid, share.cpu().to(groups.reward.dtype), 0.0)
    weight, reward_sum = groups.total(share), groups.total(share * groups.reward)
    if others:
        trees = Groups(reward, root, valid)
        weight = weight - trees.total(share)
        reward_sum = reward_sum - trees.total(share * groups.reward)
    no_baseline = weight <= _ZERO_SHARE
    baseline = reward_sum / torch.where(no_baseline, 1.0, weight)
    centred = torch.where(no_baseline, 0.0, groups.reward - baseline)
    return groups.where_comparable(centred).to(reward.device)


def share_std(reward: Tensor, share: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Compute the std of a group's rewards, in which a row counts for its share.

    All arguments and the result are ``[B]``, as in :func:`share_centred`.
    ``std^2 = sum_j s_j (R_j - mean)^2 / (S - 1)`` with ``S = sum_j s_j``, the number of trees. It
    is the unbiased std if there are no branches; it is 0 where ``S`` is not above 1, for invalid
    rows and in groups of equal rewards.
    """
    groups = Groups(reward, group_id, valid)
    share = torch.where(groups.valid, share.cpu().to(groups.reward.dtype), 0.0)
    weight = groups.total(share)
    mean = groups.total(share * groups.reward) / weight.clamp(min=_ZERO_SHARE)
    squares = groups.total(share * (groups.reward - mean) ** 2)
    freedom = weight - 1
    variance = squares / freedom.clamp(min=_ZERO_SHARE)
    variance = torch.where(freedom > _ZERO_SHARE, variance, 0.0)
    return groups.where_comparable(variance.sqrt()).to(reward.device)

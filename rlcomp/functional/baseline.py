"""Baselines of ReMax (greedy reward) and OTB (optimal token baseline)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import ConfigError
from rlcomp.functional.group_statistics import Groups, is_rounding
from rlcomp.functional.reduction import masked


def greedy_reward(
    reward: Tensor, group_id: Tensor, valid: Tensor, greedy: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the ReMax baseline: the reward of the greedy response to the row's prompt.

    Args:
        reward: shape ``[B]``.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool: rows whose reward could be computed.
        greedy: shape ``[B]``, bool; a prompt with several greedy answers has their mean reward.

    Returns:
        The baseline, shape ``[B]``, in reward units; and a bool mask, shape ``[B]``, that is False
        where the greedy answer has no valid reward.

    Raises:
        ConfigError: a group has no greedy answer.

    Source:
        Li et al. 2023, arXiv:2310.10505 (ReMax), eq. 5.

    Examples:
        >>> greedy, group = torch.tensor([False, True]), torch.tensor([4, 4])
        >>> greedy_reward(torch.tensor([1.0, 0.5]), group, torch.ones(2, dtype=torch.bool), greedy)
        (tensor([0.5000, 0.5000]), tensor([True, True]))
    """
    groups, chosen = Groups(reward, group_id, valid), greedy.cpu().bool()
    lacking = groups.total(chosen.to(groups.reward.dtype)) == 0
    if bool(lacking.any()):
        row = int(lacking.nonzero()[0])
        raise ConfigError(
            f"group {int(group_id[row])} (row {row}) has no greedy answer, which is its baseline: "
            "collect with collector@rollout=greedy_baseline, and let no stage drop its rows"
        )
    chosen = chosen & groups.valid
    count = groups.total(chosen.to(groups.reward.dtype))
    baseline = groups.total(masked(groups.reward, chosen)) / count.clamp(min=1)
    return baseline.to(reward.device), (count > 0).to(reward.device)


def squared_score_norm(log_probs: Tensor, squared_probs: Tensor, mask: Tensor) -> Tensor:
    """Compute the squared norm of ``grad_logits log pi(a)``: ``1 - 2 pi(a) + sum_v pi(v)^2``.

    Args:
        log_probs: of the tokens taken, shape ``[B, T]``, nats.
        squared_probs: ``sum_v pi_v^2``, shape ``[B, T]``.
        mask: shape ``[B, T]``, bool.

    Returns:
        Shape ``[B, T]``, between 0 and 2, 0 outside the mask.

    Source:
        ``|onehot(a) - pi|^2``, expanded.

    Examples:
        >>> half, one = torch.tensor([[0.5]]), torch.ones(1, 1, dtype=torch.bool)
        >>> squared_score_norm(half.log(), half, one)
        tensor([[0.5000]])
    """
    energy = 1 - 2 * masked(log_probs, mask).exp() + masked(squared_probs, mask)
    # Rounding can take the norm of a deterministic policy below 0.
    return masked(energy.clamp(min=0), mask)


def weighted_token_baseline(
    returns: Tensor, weight: Tensor, mask: Tensor, group_id: Tensor
) -> Tensor:
    """Subtract the weighted group mean at each position (optimal token baseline) from returns.

    ``A_it = G_it - sum_j W_jt G_jt / sum_j W_jt`` over the responses of the group with a token at
    ``t``. Columns are comparable because a group shares its prompt.

    Args:
        returns: ``G``, the rewards from the token on, shape ``[B, T]``.
        weight: ``W``, not negative, shape ``[B, T]``: the summed :func:`squared_score_norm` up to
            the token for the optimal baseline.
        mask: shape ``[B, T]``, bool.
        group_id: shape ``[B]``, int64.

    Returns:
        Shape ``[B, T]``, in reward units; exactly 0 outside the mask, for the only answer that is
        still running, and where the returns of the running answers are equal.

    Source:
        Li et al. 2026, The Optimal Token Baseline, PMLR 306, as in verl.
    """
    index = torch.unique(group_id, return_inverse=True)[1]
    empty = returns.new_zeros(int(index.max()) + 1 if len(index) else 0, returns.shape[1])
    weight, inside = masked(weight, mask), masked(returns, mask)
    total = empty.index_add(0, index, weight)
    baseline = empty.index_add(0, index, weight * inside) / torch.where(total > 0, total, 1)
    apart = _differ(returns, mask, index, empty)[index]
    return masked(inside - baseline[index], mask & apart)


def _differ(values: Tensor, mask: Tensor, index: Tensor, empty: Tensor) -> Tensor:
    """Test, ``[G, T]``, if the values of a group differ in a column by more than rounding."""
    where, infinite = index[:, None].expand(values.shape), torch.full_like(empty, float("inf"))
    low = infinite.scatter_reduce(0, where, values.masked_fill(~mask, float("inf")), "amin")
    high = values.masked_fill(~mask, float("-inf"))
    high = (-infinite).scatter_reduce(0, where, high, "amax")
    return ~is_rounding(low, high)

"""Group-relative advantages (GRPO, Dr. GRPO, RLOO, OPO, MaxRL, GPG, GDPO)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlcomp.errors import NumericalError
from rlcomp.functional.group_statistics import ROUNDING, Groups, weighted_total


def group_centred(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Subtract the group's mean from each reward (Dr. GRPO).

    ``A_i = R_i - mean_g(R)``; exactly 0 for invalid rows, groups of one and groups of equal
    rewards.

    Args:
        reward: shape ``[B]``.
        group_id: shape ``[B]``, int64, any values in any order.
        valid: shape ``[B]``, bool: rows whose reward could be computed.

    Returns:
        Shape ``[B]``, in reward units.

    Raises:
        NumericalError: a valid reward is not finite.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3 without the division; Liu et al. 2025 (Dr. GRPO).

    Examples:
        >>> reward, group = torch.tensor([1.0, 0, 0, 1, 0]), torch.zeros(5, dtype=torch.int64)
        >>> group_centred(reward, group, torch.ones(5, dtype=torch.bool))
        tensor([ 0.6000, -0.4000, -0.4000,  0.6000, -0.4000])
    """
    return Groups(reward, group_id, valid).centred().to(reward.device)


def group_standardised(reward: Tensor, group_id: Tensor, valid: Tensor, epsilon: float) -> Tensor:
    """Standardise the reward in its group (GRPO).

    ``A_i = (R_i - mean_g(R)) / (std_g(R) + eps)`` with the unbiased std (n - 1).

    Args:
        reward: shape ``[B]``.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool.
        epsilon: added to the standard deviation, in reward units.

    Returns:
        Shape ``[B]``, dimensionless; 0 where :func:`group_centred` is.

    Source:
        Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """
    groups = Groups(reward, group_id, valid)
    return groups.kept(groups.centred() / (groups.std() + epsilon)).to(reward.device)


def group_batch_standardised(
    reward: Tensor, group_id: Tensor, valid: Tensor, epsilon: float
) -> Tensor:
    """Standardise the reward with the group's mean and the batch's std (GRPO).

    ``A_i = (R_i - mean_g(R)) / (std_B(R) + eps)`` with the unbiased std of all valid rewards of the
    batch.

    Args:
        reward: shape ``[B]``.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool.
        epsilon: added to the standard deviation, in reward units.

    Returns:
        Shape ``[B]``, dimensionless; 0 where :func:`group_centred` is.

    Source:
        Liu et al. 2025, arXiv:2508.08221 (mean of the group, std of the batch).

    Examples:
        >>> reward, group = torch.tensor([1.0, -1.0, 5.0, 5.0]), torch.tensor([0, 0, 1, 1])
        >>> group_batch_standardised(reward, group, torch.ones(4, dtype=torch.bool), 1e-6)
        tensor([ 0.3333, -0.3333,  0.0000,  0.0000])
    """
    groups = Groups(reward, group_id, valid)
    return (groups.centred() / (_std(groups.reward[groups.valid]) + epsilon)).to(reward.device)


def leave_one_out(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Subtract the mean reward of the other valid rows of the group (RLOO).

    ``A_i = R_i - mean_{j != i} R_j = (n / (n - 1)) (R_i - mean_g(R))``.

    Args:
        reward: shape ``[B]``.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool.

    Returns:
        Shape ``[B]``, in reward units; 0 where :func:`group_centred` is.

    Source:
        Ahmadian et al. 2024, arXiv:2402.14740, eq. 8; Kool et al. 2019.

    Examples:
        >>> group, valid = torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool)
        >>> leave_one_out(torch.tensor([1.0, 0.0, 0.0]), group, valid)
        tensor([ 1.0000, -0.5000, -0.5000])
    """
    groups = Groups(reward, group_id, valid)
    others = (groups.count - 1).clamp(min=1)
    return (groups.centred() * groups.count / others).to(reward.device)


def length_weighted(reward: Tensor, length: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Subtract the length-weighted mean reward of the group (OPO).

    ``A_i = R_i - sum_j n_j R_j / sum_j n_j``. The variance-optimal baseline weights rewards by the
    squared norm of the score function. This norm grows with the length.

    Args:
        reward: shape ``[B]``.
        length: tokens of each response, shape ``[B]``.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool.

    Returns:
        Shape ``[B]``, in reward units; 0 where :func:`group_centred` is.

    Source:
        Hao et al. 2025, arXiv:2505.23585 (OPO).

    Examples:
        >>> group, valid = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)
        >>> length_weighted(torch.tensor([1.0, 0.0]), torch.tensor([3, 1]), group, valid)
        tensor([ 0.2500, -0.7500])
    """
    groups = Groups(reward, group_id, valid)
    weight = torch.where(groups.valid, length.cpu().to(groups.reward.dtype), 0)
    baseline = groups.total(weight * groups.reward) / groups.total(weight).clamp(min=1)
    return groups.kept(groups.reward - baseline).to(reward.device)


def mean_normalised(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Divide the group-centred reward by the group's mean reward (MaxRL).

    ``A_i = (R_i - mean_g(R)) / mean_g(R)``. With rewards 0 and 1 and success rate p, the
    expectation of ``mean_i A_i grad log pi(y_i)`` is ``sum_{j=0}^{n-2} (1 - p)^j grad p``: the
    gradient of ``log p``, ``grad p / p``, up to order ``n - 1``.

    Args:
        reward: shape ``[B]``, at least 0.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool.

    Returns:
        Shape ``[B]``, dimensionless; 0 where :func:`group_centred` is.

    Raises:
        NumericalError: a valid reward is negative or not finite.

    Source:
        Tajwar et al. 2026 (MaxRL), arXiv:2602.02710.

    Examples:
        >>> group, valid = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.bool)
        >>> mean_normalised(torch.tensor([1.0, 0.0, 0.0, 0.0]), group, valid)
        tensor([ 3., -1., -1., -1.])
    """
    groups = Groups(reward, group_id, valid)
    if bool((groups.reward < 0).any()):
        row = int((groups.reward < 0).nonzero()[0])
        raise NumericalError(
            f"reward of row {row} is {float(groups.reward[row])}: MaxRL divides by the mean of a "
            "group's rewards, which takes rewards of at least 0; shift them, pay penalties "
            "elsewhere (kl=in_loss) or take advantage=group_mean"
        )
    mean = groups.total(groups.reward) / groups.count
    # Where rewards differ and none is negative, the mean is above 0.
    return (groups.centred() / torch.where(groups.counted, mean, 1.0)).to(reward.device)


def gpg_advantage(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Divide the group-centred reward by the share of non-zero rewards (GPG).

    ``A_i = (B / #{j: R_j != 0}) (R_i - mean_g(R))``.

    Args:
        reward: shape ``[B]``.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool; both counts are over valid rows.

    Returns:
        Shape ``[B]``, in reward units; 0 where :func:`group_centred` is.

    Source:
        Chu et al. 2025, arXiv:2504.02546 (GPG), as in verl.
    """
    groups = Groups(reward, group_id, valid)
    factor = groups.valid.sum() / (groups.reward != 0).sum().clamp(min=1)
    return (factor * groups.centred()).to(reward.device)


def gdpo_advantage(
    rewards: Mapping[str, Tensor],
    weights: Mapping[str, float],
    group_id: Tensor,
    valid: Tensor,
    epsilon: float,
) -> Tensor:
    """Sum several rewards, each standardised in its group, and divide by the std (GDPO).

    ``S = sum_k w_k (R_k - mean_g) / (std_g + epsilon)`` and ``A = S / (std(S) + epsilon)``. The
    mean of ``S`` is 0 in every group, so it is not subtracted.

    Args:
        rewards: by name, shape ``[B]`` each.
        weights: a factor for each reward.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool.
        epsilon: added to both standard deviations.

    Returns:
        Shape ``[B]``, dimensionless; 0 for invalid rows and in groups of one.

    Source:
        Liu et al. 2026, arXiv:2601.05242 (GDPO).
    """
    parts, noise = {}, torch.zeros(group_id.shape)
    for name, weight in weights.items():
        parts[name] = group_standardised(rewards[name], group_id, valid, epsilon).cpu()
        spread = Groups(rewards[name], group_id, valid).std() + epsilon
        size = Groups(rewards[name].abs(), group_id, valid).highest(valid.cpu().bool())
        noise = noise + abs(weight) * ROUNDING * size / spread
    total = weighted_total(parts, weights)
    # Parts of opposite sign leave a rounding error.
    total = torch.where(total.abs() > noise, total, 0.0).to(valid.device)
    return total / (_std(total[valid.bool()]) + epsilon)


def _std(values: Tensor) -> Tensor:
    """Compute the unbiased standard deviation; 0 for fewer than two values."""
    return values.std() if values.numel() > 1 else values.new_zeros(())

"""Advantages of answers to the same prompt, relative to one another."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import NumericalError

# Rewards closer than this are equal: a float32 mean of equal rewards leaves a residue, which
# division
# by a standard deviation of the same size would blow up (0.35 x 7 gives |A| = 0.056 in float32).
_SAME = 1e-8


def group_centred(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """``R - mean_g(R)``; exactly 0 for invalid rows, groups of one and groups of equal rewards.

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
    return _Groups(reward, group_id, valid).centred().to(reward.device)


def group_standardised(reward: Tensor, group_id: Tensor, valid: Tensor, epsilon: float) -> Tensor:
    """``(R - mean_g) / (std_g + epsilon)`` with the unbiased std (n - 1).

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
    return _Groups(reward, group_id, valid).standardised(epsilon).to(reward.device)


class _Groups:
    """Sums over the valid rows of each group, seen from every row."""

    def __init__(self, reward: Tensor, group_id: Tensor, valid: Tensor) -> None:
        # On the CPU, where sums have one order; in float32 at least: integers and bools count too.
        reward, group_id, valid = reward.cpu(), group_id.cpu(), valid.cpu().bool()
        reward = reward if reward.dtype == torch.float64 else reward.float()
        if not bool(reward[valid].isfinite().all()):
            row = int((valid & ~reward.isfinite()).nonzero()[0])
            raise NumericalError(f"reward of row {row} is {float(reward[row])}, and it is valid")
        _, self.index = torch.unique(group_id, return_inverse=True)
        self.groups = int(self.index.max()) + 1 if reward.numel() else 0
        self.valid = valid
        self.reward = torch.where(valid, reward, torch.zeros_like(reward))
        self.count = self._total(valid.to(reward.dtype))
        self.counted = valid & (self.count >= 2) & ~self._all_equal()

    def _total(self, values: Tensor) -> Tensor:
        return values.new_zeros(self.groups).index_add_(0, self.index, values)[self.index]

    def _all_equal(self) -> Tensor:
        start = self.reward.new_full((self.groups,), float("inf"))
        low = self.reward.masked_fill(~self.valid, float("inf"))
        high = self.reward.masked_fill(~self.valid, float("-inf"))
        low = start.scatter_reduce(0, self.index, low, "amin")[self.index]
        high = (-start).scatter_reduce(0, self.index, high, "amax")[self.index]
        return ~(high - low > _SAME * torch.maximum(low.abs(), high.abs()).clamp(min=1))

    def _kept(self, values: Tensor) -> Tensor:
        return torch.where(self.counted, values, torch.zeros_like(values))

    def centred(self) -> Tensor:
        return self._kept(self.reward - self._total(self.reward) / self.count.clamp(min=1))

    def standardised(self, epsilon: float) -> Tensor:
        centred = self.centred()
        variance = self._total(centred**2) / (self.count - 1).clamp(min=1)
        return self._kept(centred / (variance.sqrt() + epsilon))

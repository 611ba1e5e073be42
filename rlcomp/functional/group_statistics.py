"""Statistics of groups of rewards, over the valid rows and broadcast to every row."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlcomp.errors import NumericalError

# Relative and absolute tolerance of equal rewards. The relative one is four steps of float32 at 1;
# the absolute one is for finer numbers and for numbers near 0. Sums and means leave residues of
# this size. A division by the spread of residues would turn them into signals.
ROUNDING, SAME = 2.0**-21, 1e-8


def is_rounding(low: Tensor, high: Tensor) -> Tensor:
    """Test if two numbers differ by no more than rounding.

    The tolerance is ``2^-21`` of their size if float32 holds both, in any dtype; otherwise 1e-8 of
    their size. It is at least 1e-8.

    Args:
        low: any shape.
        high: same shape; the result is True where it is below ``low``.

    Returns:
        Same shape, bool.

    Examples:
        >>> is_rounding(torch.tensor([120.0, 1e-3, 0.0]), torch.tensor([120.00001, 1.001e-3, 1e-9]))
        tensor([ True, False,  True])
    """
    coarse = (low.float() == low) & (high.float() == high)
    size = torch.maximum(low.abs(), high.abs()) * torch.where(coarse, ROUNDING, SAME)
    return ~(high - low > size.clamp(min=SAME))


def weighted_total(parts: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Return ``sum_k w_k x_k``, added up in float64; 0 where the terms cancel up to rounding.

    Args:
        parts: by name, of one shape and dtype, rounded to float32.
        weights: a factor for each part.

    Returns:
        The parts' shape and dtype.

    Examples:
        >>> parts = {"a": torch.tensor([0.0, 300.0]), "b": torch.tensor([200.0, 100.0])}
        >>> weighted_total(parts, {"a": 0.2, "b": 0.6})
        tensor([120., 120.])
    """
    terms = torch.stack([weights[name] * part.double() for name, part in parts.items()])
    total, size = terms.sum(0), terms.abs().amax(0)
    cancelled = total.abs() <= ROUNDING * size
    return torch.where(cancelled, 0.0, total).to(next(iter(parts.values())).dtype)


class Groups:
    """Group statistics over valid rows, broadcast to every row; on the CPU.

    Args:
        reward: shape ``[B]``, any dtype.
        group_id: shape ``[B]``, int64.
        valid: shape ``[B]``, bool or 0 and 1.

    Attributes:
        reward: at least float32, 0 where not valid.
        valid: bool.
        count: valid rows of the row's group.
        counted: valid rows of groups with two or more valid rewards that are not all equal.

    Raises:
        NumericalError: a valid reward is not finite.
    """

    def __init__(self, reward: Tensor, group_id: Tensor, valid: Tensor) -> None:
        # On the CPU, where sums have one order; at least float32, since rewards may be integers or
        # bools.
        reward, group_id, valid = reward.cpu(), group_id.cpu(), valid.cpu().bool()
        reward = reward if reward.dtype == torch.float64 else reward.float()
        if not bool(reward[valid].isfinite().all()):
            row = int((valid & ~reward.isfinite()).nonzero()[0])
            raise NumericalError(f"reward of row {row} is {float(reward[row])}, and it is valid")
        _, self.index = torch.unique(group_id, return_inverse=True)
        self.groups = int(self.index.max()) + 1 if reward.numel() else 0
        self.valid = valid
        self.reward = torch.where(valid, reward, torch.zeros_like(reward))
        self.count = self.total(valid.to(reward.dtype))
        self.counted = valid & (self.count >= 2) & ~self._all_equal()

    def members(self, among: Tensor) -> list[Tensor]:
        """Return the indices of the ``among`` rows, group by group; skip groups without one."""
        rows = among.nonzero()[:, 0]
        rows = rows[self.index[rows].argsort(stable=True)]
        sizes = self.index[rows].bincount().tolist()
        return [part for part in torch.split(rows, sizes) if len(part)]

    def total(self, values: Tensor) -> Tensor:
        """Sum ``values`` ``[B]`` over the row's group, shape ``[B]``."""
        return values.new_zeros(self.groups).index_add_(0, self.index, values)[self.index]

    def highest(self, among: Tensor) -> Tensor:
        """Return the highest reward among the ``among`` rows of the group; ``-inf`` if none."""
        start = self.reward.new_full((self.groups,), float("-inf"))
        candidates = self.reward.masked_fill(~among, float("-inf"))
        return start.scatter_reduce(0, self.index, candidates, "amax")[self.index]

    def kept(self, values: Tensor) -> Tensor:
        """Return ``values`` ``[B]``, exactly 0 where ``counted`` is False."""
        return torch.where(self.counted, values, torch.zeros_like(values))

    def centred(self) -> Tensor:
        """Return ``R_i - mean_g(R)``."""
        return self.kept(self.reward - self.total(self.reward) / self.count)

    def std(self) -> Tensor:
        """Return the unbiased standard deviation of the row's group."""
        variance = self.total(self.centred() ** 2) / (self.count - 1).clamp(min=1)
        return variance.sqrt()

    def _all_equal(self) -> Tensor:
        start = self.reward.new_full((self.groups,), float("inf"))
        low = self.reward.masked_fill(~self.valid, float("inf"))
        low = start.scatter_reduce(0, self.index, low, "amin")[self.index]
        high = self.highest(self.valid)
        return is_rounding(low, high)

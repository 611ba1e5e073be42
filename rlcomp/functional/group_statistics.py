"""Statistics of groups of rewards, over the valid rows and broadcast to every row."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlcomp.errors import NumericalError

# Relative and absolute tolerance of equal rewards: four steps of float32 at 1, and for finer
# numbers or near 0. Sums and means leave such residues, and a division by their spread would
# turn them into signals.
ROUNDING, SAME = 2.0**-21, 1e-8


def is_rounding(low: Tensor, high: Tensor) -> Tensor:
    """Return whether two numbers differ by no more than rounding.

    By ``2^-21`` of their size if float32 holds both, whatever their dtype, else by 1e-8 of it; by
    1e-8 in any case.

    Args:
        low: any shape.
        high: same shape; True is returned if it is below ``low``.

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
    """Return ``sum_k w_k x_k``, added up in float64; 0 where the terms cancel but for rounding.

    Args:
        parts: by name, of one shape and dtype, rounded to float32.
        weights: a factor for each of them.

    Returns:
        Of the parts' shape and dtype.

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
        reward: float32 at least, 0 where not valid.
        valid: bool.
        count: valid rows of the row's group.
        counted: valid rows of groups with at least two valid, not all equal rewards; others get 0.

    Raises:
        NumericalError: a valid reward is not finite.
    """

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
        self.count = self.total(valid.to(reward.dtype))
        self.counted = valid & (self.count >= 2) & ~self._all_equal()

    def members(self, among: Tensor) -> list[Tensor]:
        """The indices of the marked rows, group by group; groups without one are left out."""
        rows = among.nonzero()[:, 0]
        rows = rows[self.index[rows].argsort(stable=True)]
        sizes = self.index[rows].bincount().tolist()
        return [part for part in torch.split(rows, sizes) if len(part)]

    def total(self, values: Tensor) -> Tensor:
        """The sum of ``values`` ``[B]`` over the row's group, shape ``[B]``."""
        return values.new_zeros(self.groups).index_add_(0, self.index, values)[self.index]

    def highest(self, among: Tensor) -> Tensor:
        """The highest reward among the marked rows of the row's group; ``-inf`` if none is."""
        start = self.reward.new_full((self.groups,), float("-inf"))
        marked = self.reward.masked_fill(~among, float("-inf"))
        return start.scatter_reduce(0, self.index, marked, "amax")[self.index]

    def kept(self, values: Tensor) -> Tensor:
        """``values`` ``[B]``, exactly 0 where ``counted`` is False."""
        return torch.where(self.counted, values, torch.zeros_like(values))

    def centred(self) -> Tensor:
        """``R_i - mean_g(R)``."""
        return self.kept(self.reward - self.total(self.reward) / self.count)

    def std(self) -> Tensor:
        """The unbiased standard deviation of the row's group."""
        variance = self.total(self.centred() ** 2) / (self.count - 1).clamp(min=1)
        return variance.sqrt()

    def _all_equal(self) -> Tensor:
        start = self.reward.new_full((self.groups,), float("inf"))
        low = self.reward.masked_fill(~self.valid, float("inf"))
        low = start.scatter_reduce(0, self.index, low, "amin")[self.index]
        high = self.highest(self.valid)
        return is_rounding(low, high)

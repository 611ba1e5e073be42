"""Statistics of groups of responses."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlcomp.errors import NumericalError

# Tolerances of equal rewards. Sums and means leave residues of this size, and a division by the
# spread of residues would turn them into signals.
# Relative, for numbers that float32 holds: four steps of float32 at 1.
ROUNDING = 2.0**-21
# Relative, for finer numbers; and the least absolute tolerance, for numbers near 0.
_FINE_ROUNDING = 1e-8


def is_rounding(low: Tensor, high: Tensor) -> Tensor:
    """Test if ``low`` and ``high`` differ by no more than rounding; True where ``high`` is below.

    The tolerance is ``2^-21`` of their size if float32 holds both, otherwise 1e-8 of their size; it
    is at least 1e-8.

    Examples:
        >>> is_rounding(torch.tensor([120.0, 1e-3, 0.0]), torch.tensor([120.00001, 1.001e-3, 1e-9]))
        tensor([ True, False,  True])
    """
    coarse = (low.float() == low) & (high.float() == high)
    relative = torch.where(coarse, ROUNDING, _FINE_ROUNDING)
    tolerance = (torch.maximum(low.abs(), high.abs()) * relative).clamp(min=_FINE_ROUNDING)
    return ~(high - low > tolerance)


def weighted_total(parts: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Return ``sum_k w_k x_k``, added up in float64; 0 where the terms cancel up to rounding.

    All parts have one shape; the result has this shape and the dtype of the first part.

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
    """Group statistics over valid rows, broadcast to every row: ``[B]``, on the CPU.

    NumericalError if a valid reward is not finite.

    Attributes:
        index: number of the row's group, int64, from 0 to ``groups - 1``.
        groups: number of groups.
        reward: at least float32, 0 where not valid.
        valid: bool.
        count: number of valid rows of the row's group, in the dtype of ``reward``.
        comparable: valid rows of groups with two or more valid rewards that are not all equal.
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
        self.comparable = valid & (self.count >= 2) & ~self._all_equal()

    def members(self, selected: Tensor) -> list[Tensor]:
        """Return the indices of the selected rows, group by group; skip groups without one."""
        rows = selected.nonzero()[:, 0]
        rows = rows[self.index[rows].argsort(stable=True)]
        sizes = self.index[rows].bincount().tolist()
        return [part for part in torch.split(rows, sizes) if len(part)]

    def total(self, values: Tensor) -> Tensor:
        """Sum ``values`` ``[B]`` over the row's group, shape ``[B]``."""
        return values.new_zeros(self.groups).index_add_(0, self.index, values)[self.index]

    def highest(self, selected: Tensor) -> Tensor:
        """Return the highest reward of the selected rows of the group; ``-inf`` without any."""
        start = self.reward.new_full((self.groups,), float("-inf"))
        candidates = self.reward.masked_fill(~selected, float("-inf"))
        return start.scatter_reduce(0, self.index, candidates, "amax")[self.index]

    def where_comparable(self, values: Tensor) -> Tensor:
        """Return ``values`` ``[B]``, exactly 0 where ``comparable`` is False."""
        return torch.where(self.comparable, values, torch.zeros_like(values))

    def centred(self) -> Tensor:
        """Return ``R_i - mean_g(R)``, exactly 0 where ``comparable`` is False."""
        return self.where_comparable(self.reward - self.total(self.reward) / self.count)

    def std(self) -> Tensor:
        """Return the unbiased standard deviation of the row's group; 0 if its rewards are equal."""
        variance = self.total(self.centred() ** 2) / (self.count - 1).clamp(min=1)
        return variance.sqrt()

    def _all_equal(self) -> Tensor:
        start = self.reward.new_full((self.groups,), float("inf"))
        low = self.reward.masked_fill(~self.valid, float("inf"))
        low = start.scatter_reduce(0, self.index, low, "amin")[self.index]
        high = self.highest(self.valid)
        return is_rounding(low, high)


def varying_groups(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Test if the rewards of a row's group vary beyond rounding (DAPO dynamic sampling), ``[B]``.

    False for groups with fewer than two valid rows. A standard deviation above 0 is no such test:
    for 0.1, 0.1, 0.1 it is 1.4e-17 in float64.

    Source: Yu et al. 2025, arXiv:2503.14476, eq. 11.

    Examples:
        >>> reward, group = torch.tensor([1.0, 1.0, 0.0, 1.0]), torch.tensor([5, 5, 2, 2])
        >>> varying_groups(reward, group, torch.ones(4, dtype=torch.bool))
        tensor([False, False,  True,  True])
    """
    groups = Groups(reward, group_id, valid)
    differ = groups.total(groups.comparable.to(groups.reward.dtype)) > 0
    return differ.to(reward.device)


def group_accuracy(correct: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Compute the share of correct responses among the valid ones of a row's group, float32.

    ``correct`` (bool), ``group_id``, ``valid`` and the result are ``[B]``. 0 where a group has no
    valid row.

    Source: Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3 (the ratio of right
    answers).

    Examples:
        >>> right, group = torch.tensor([True, False, False]), torch.tensor([5, 5, 2])
        >>> group_accuracy(right, group, torch.ones(3, dtype=torch.bool))
        tensor([0.5000, 0.5000, 0.0000])
    """
    groups = Groups(correct, group_id, valid)
    return (groups.total(groups.reward) / groups.count.clamp(min=1)).to(correct.device)


def difficulty_weight(
    accuracy: Tensor, low: float, high: float, midpoint: float, steepness: float
) -> Tensor:
    """Compute GRPO-LEAD's difficulty weight: logistic in the group accuracy ``q``.

    ``w(q) = low + (high - low) / (1 + exp(steepness (q - midpoint)))``, dimensionless, in the shape
    of ``accuracy`` ``q``.

    Source: Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3.

    Examples:
        >>> difficulty_weight(torch.tensor([0.0, 0.75, 1.0]), 0.4, 1.5, 0.75, 10.0)
        tensor([1.4994, 0.9500, 0.4834])
    """
    return low + (high - low) * torch.sigmoid(steepness * (midpoint - accuracy))


def difficulty_weighted(
    advantage: Tensor,
    accuracy: Tensor,
    low: float,
    high: float,
    midpoint: float,
    steepness: float,
) -> Tensor:
    """Reweight advantages ``[B, T]`` by difficulty (GRPO-LEAD).

    ``A w(q)`` where ``A > 0``, ``A w(1 - q)`` elsewhere; ``w`` is :func:`difficulty_weight`, and
    ``accuracy`` ``q`` is ``[B]``.

    Source: Zhang and Zuo 2025 (GRPO-LEAD), arXiv:2504.09696, section 3.3.

    Examples:
        >>> advantage = torch.tensor([[2.0, -2.0]])
        >>> difficulty_weighted(advantage, torch.tensor([0.75]), 0.4, 1.5, 0.75, 10.0)
        tensor([[ 1.9000, -2.9853]])
    """
    share = accuracy.to(advantage.dtype)[:, None]
    rewarded = difficulty_weight(share, low, high, midpoint, steepness)
    blamed = difficulty_weight(1 - share, low, high, midpoint, steepness)
    return advantage * torch.where(advantage > 0, rewarded, blamed)


def equal_shares(share: Tensor, first: Tensor) -> Tensor:
    """Compute per-row factors that give two roles equal total weight.

    ``c_i = (W_a + W_b) / (2 W_role(i))`` with ``W`` the summed weight of a role; the total is
    unchanged. 1 for all rows where one role has weight 0. ``share`` ``[B]`` is the weight of a row;
    ``first`` ``[B]`` (bool) selects the rows of the first role.

    Source: PretrainZero, arXiv:2512.03442: the batches of two roles join with equal weight.

    Examples:
        >>> equal_shares(torch.tensor([0.5, 1.0, 1.5]), torch.tensor([True, False, False]))
        tensor([3.0000, 0.6000, 0.6000])
    """
    # Sum each role by itself: a difference from the sum of all rows would have rounding errors.
    total_first, total_second = share[first].sum(), share[~first].sum()
    role_total = torch.where(first, total_first, total_second)
    both_weigh = (total_first > 0) & (total_second > 0)
    factor = (total_first + total_second) / (2 * role_total)
    return torch.where(both_weigh, factor, torch.ones_like(share))

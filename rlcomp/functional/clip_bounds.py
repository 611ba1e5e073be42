"""Tokens that a trust region clips: by balance (BAPO), covariance (Clip-Cov), size (M2PO).

Tensors are ``[B, T]``. ``ratio`` is pi / pi_old, dimensionless; ``advantage`` is in reward units.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from rlcomp.functional.ratio import ROUNDING

Measure = Literal["gradient", "value"]

# Bounds are sums of steps: compare them with slack, so that rounding does not decide.
_SLACK = 1e-12


class BoundGrid(NamedTuple):
    """Search grid of one bound: from ``start`` by ``step`` up to ``end``."""

    start: float
    end: float
    step: float

    def next_value(self, value: float) -> float:
        """Return the next value, at most ``end``."""
        value += self.step
        return value if value < self.end - _SLACK else self.end


class Bounds(NamedTuple):
    """Result of the search: both bounds, their positive share and the number of steps."""

    floor: float
    ceiling: float
    share: float
    steps: int


def contributions(
    ratio: Tensor, advantage: Tensor, floor: float, ceiling: float, measure: Measure
) -> Tensor:
    """Compute each token's absolute contribution to the clipped objective or to its gradient.

    ``value``: ``|min(r A, clip(r, floor, ceiling) A)|``. ``gradient``: ``r |A|`` where the ratio is
    not clipped, else 0. A higher ceiling admits more tokens of positive advantage; a higher floor
    excludes more tokens of negative advantage. ``[B, T]``, in reward units.

    Source: Xi et al. 2025 (BAPO), arXiv:2510.18927 (measure "value").

    Examples:
        >>> r, a = torch.tensor([[0.5, 0.7]]), torch.tensor([[-1.0, -1.0]])
        >>> contributions(r, a, 0.6, 1.2, "value"), contributions(r, a, 0.6, 1.2, "gradient")
        (tensor([[0.6000, 0.7000]]), tensor([[0.0000, 0.7000]]))
    """
    if measure == "value":
        factor = torch.where(advantage > 0, ratio.clamp(max=ceiling), ratio.clamp(min=floor))
    else:
        unclipped = torch.where(advantage > 0, ratio <= ceiling, ratio >= floor)
        factor = torch.where(unclipped, ratio, torch.zeros_like(ratio))
    return factor * advantage.abs()


def positive_share(contribution: Tensor, advantage: Tensor) -> float:
    """Compute ``sum_{A > 0} m / sum m`` of contributions ``m``, a number in [0, 1].

    1 where all contributions are 0, since there is nothing to balance.

    Source: Xi et al. 2025 (BAPO), arXiv:2510.18927.

    Examples:
        >>> positive_share(torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, -1.0]]))
        0.25
    """
    contribution = contribution.double()
    total = float(contribution.sum())
    return float(contribution[advantage > 0].sum()) / total if total > 0 else 1.0


def search_bounds(
    ratio: Tensor,
    advantage: Tensor,
    weight: Tensor,
    share: float,
    grids: tuple[BoundGrid, BoundGrid],
    measure: Measure,
) -> Bounds:
    """Search BAPO's bounds: raise the ceiling, then the floor, until the positive share is reached.

    Args:
        ratio: ratios of the whole optimiser step, shape ``[B, T]``; no gradient is used.
        advantage: shape ``[B, T]``, 0 outside the mask.
        weight: shape ``[B, T]``, 0 outside the mask; in the paper the probability of the token
            under the sampling policy.
        share: the positive share to reach, in [0, 1].
        grids: search grids of the floor and of the ceiling.
        measure: see :func:`contributions`.

    Returns:
        The first bounds that reach the share, or the ends of both grids if no bounds reach it.

    Source: Xi et al. 2025 (BAPO), arXiv:2510.18927, algorithm 1.

    Examples:
        >>> r, a = torch.tensor([[1.0, 0.5, 0.7]]), torch.tensor([[1.0, -1.0, -1.0]])
        >>> grids = BoundGrid(0.6, 0.9, 0.1), BoundGrid(1.2, 1.3, 0.1)
        >>> bounds = search_bounds(r, a, torch.ones(1, 3), 0.7, grids, "gradient")
        >>> [round(value, 2) for value in bounds]
        [0.8, 1.3, 1.0, 3]
    """
    floors, ceilings = grids
    floor, ceiling, steps = floors.start, ceilings.start, 0
    while True:
        mass = weight * contributions(ratio, advantage, floor, ceiling, measure)
        current_share = positive_share(mass, advantage)
        if current_share >= share - _SLACK or (ceiling >= ceilings.end and floor >= floors.end):
            return Bounds(floor, ceiling, current_share, steps)
        if ceiling < ceilings.end:
            ceiling = ceilings.next_value(ceiling)
        else:
            floor = floors.next_value(floor)
        steps += 1


def covariance(log_probs: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    """Compute ``(A - mean A) (log pi - mean log pi)`` per token, both means over the mask.

    The rows are of the whole optimiser step. The result is ``[B, T]``, at least float32, detached,
    0 outside the mask.

    Source: Cui et al. 2025 (the entropy mechanism), arXiv:2505.22617, section 4.

    Examples:
        >>> one = torch.ones(1, 2, dtype=torch.bool)
        >>> covariance(torch.tensor([[-1.0, -3.0]]), torch.tensor([[1.0, -1.0]]), one)
        tensor([[1., 1.]])
    """
    return _centred(advantage, mask) * _centred(log_probs, mask)


def _centred(values: Tensor, mask: Tensor) -> Tensor:
    zero = torch.zeros((), dtype=torch.promote_types(values.dtype, torch.float32))
    zero = zero.to(values.device)
    inside = torch.where(mask, values.detach().to(zero.dtype), zero)
    mean = inside.sum() / mask.sum().clamp(min=1)
    return torch.where(mask, inside - mean, zero)


def share_count(mask: Tensor, share: float) -> int:
    """Count a share of the ``N`` tokens in the mask, at least 1: ``max(1, floor(share * N))``.

    Source: Cui et al. 2025 (Clip-Cov: r N), arXiv:2505.22617, section 4.2; rounded as in verl.

    Examples:
        >>> share_count(torch.ones(2, 5, dtype=torch.bool), 0.25)
        2
    """
    return max(1, int(share * int(mask.sum())))


def highest(values: Tensor, eligible: Tensor, count: int) -> Tensor:
    """Select the ``count`` largest eligible values; ties with the last of them are all selected.

    Return a bool mask ``[B, T]``, all False if no value is eligible. Values within 1e-5 tie:
    responses with a common prefix have equal values up to rounding. The selection then depends
    neither on the order of rows nor on how they were batched.

    Source: Cui et al. 2025 (KL-Cov), arXiv:2505.22617, section 4.2.

    Examples:
        >>> highest(torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[True, False, True]]), 1)
        tensor([[False, False,  True]])
    """
    candidates = values[eligible]
    if not candidates.numel():
        return torch.zeros_like(eligible)
    last = candidates.topk(min(count, candidates.numel())).values[-1]
    return eligible & (values >= last - ROUNDING)


def draw_eligible(
    eligible: Tensor, sort_keys: Tensor, count: int, generator: torch.Generator
) -> Tensor:
    """Draw at most ``count`` eligible tokens at random; return their bool mask ``[B, T]``.

    Candidates are first sorted by ``sort_keys``, so that neither padding nor the order of rows
    (except among ties) changes the draw. The keys must be data: rounding makes model outputs differ
    between responses with a common prefix. The generator is on the CPU.

    Source: Cui et al. 2025 (Clip-Cov), arXiv:2505.22617, section 4.2.

    Examples:
        >>> all_ = torch.ones(1, 4, dtype=torch.bool)
        >>> draw_eligible(all_, torch.arange(4.0)[None], 3, torch.Generator()).sum()
        tensor(3)
    """
    positions = eligible.nonzero()
    order = sort_keys[eligible].argsort(stable=True)
    picks = torch.randperm(len(positions), generator=generator)[:count].to(order.device)
    rows, columns = positions[order[picks]].unbind(1)
    result = torch.zeros_like(eligible)
    result[rows, columns] = True
    return result


def second_moment_outliers(log_ratio: Tensor, eligible: Tensor, bound: float) -> Tensor:
    """Return the fewest tokens to drop for a mean ``(log r)^2`` of at most ``bound`` (M2PO).

    Return a bool mask ``[B, T]``. ``log_ratio``, in nats, is of the whole optimiser step; ``bound``
    is in nats squared. The largest squares are dropped first. Squares within 1e-5 of the last
    dropped one are dropped too, so that the order of rows does not matter.

    Source: Zheng et al. 2025 (M2PO), arXiv:2510.01161, algorithm 1.

    Examples:
        >>> second_moment_outliers(torch.tensor([[0.1, 1.0, 0.2]]), torch.ones(1, 3).bool(), 0.05)
        tensor([[False,  True, False]])
    """
    square = log_ratio.detach().square()
    ascending = square[eligible].double().sort().values
    number = torch.arange(1, len(ascending) + 1, device=ascending.device)
    # The mean of the n smallest values rises with n: drop one value for each mean above the bound.
    count = int((ascending.cumsum(0) / number > bound).sum())
    return highest(square, eligible, count) if count else torch.zeros_like(eligible)

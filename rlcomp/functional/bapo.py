"""Search of BAPO's adaptive clip bounds."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Measure = Literal["gradient", "value"]

# Bounds are sums of steps: compare them with slack, so that rounding does not decide.
_SLACK = 1e-12


class Path(NamedTuple):
    """Search grid of one bound: from ``start`` by ``step`` up to ``end``."""

    start: float
    end: float
    step: float

    def after(self, value: float) -> float:
        """Return the next value, at most ``end``."""
        value += self.step
        return value if value < self.end - _SLACK else self.end


class Bounds(NamedTuple):
    """Result of the search: both bounds, the share reached and the number of steps."""

    floor: float
    ceiling: float
    share: float
    steps: int


def contributions(
    ratio: Tensor, advantage: Tensor, floor: float, ceiling: float, measure: Measure
) -> Tensor:
    """Compute each token's absolute contribution to the clipped objective or to its gradient.

    ``value``: ``|min(r A, clip(r, floor, ceiling) A)|``; ``gradient``: ``r |A|`` where the ratio is
    not clipped, else 0.

    Args:
        ratio: shape ``[B, T]``, dimensionless.
        advantage: shape ``[B, T]``, in reward units.
        floor: least ratio of negative tokens.
        ceiling: largest ratio of positive tokens.
        measure: ``value`` is the clipped surrogate; ``gradient`` counts only tokens that are not
            clipped, with ``ratio * |advantage|``, and so grows for positive and shrinks for
            negative tokens with both bounds.

    Returns:
        Shape ``[B, T]``, in reward units, never negative.

    Source:
        Xi et al. 2025 (BAPO), arXiv:2510.18927 (measure "value").

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
    """Compute the share of the positive tokens, ``sum_{A > 0} m / sum m``, of contributions ``m``.

    Args:
        contribution: shape ``[B, T]``, not negative.
        advantage: shape ``[B, T]``.

    Returns:
        In [0, 1]; 1 where all contributions are 0, since there is nothing to balance.

    Source:
        Xi et al. 2025 (BAPO), arXiv:2510.18927.

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
    paths: tuple[Path, Path],
    measure: Measure,
) -> Bounds:
    """Search BAPO's bounds: raise the ceiling, then the floor, until the positive share is reached.

    Args:
        ratio: of the whole optimiser step, shape ``[B, T]``; no gradient is used.
        advantage: shape ``[B, T]``, 0 outside the mask.
        weight: of each token, shape ``[B, T]``, 0 outside the mask; the paper's probability of the
            token under the policy that sampled it.
        share: the positive share to reach, in [0, 1].
        paths: of the floor and of the ceiling.
        measure: see :func:`contributions`.

    Returns:
        The first bounds that reach the share, or the ends of both paths if none do.

    Source:
        Xi et al. 2025 (BAPO), arXiv:2510.18927, algorithm 1.

    Examples:
        >>> r, a = torch.tensor([[1.0, 0.5, 0.7]]), torch.tensor([[1.0, -1.0, -1.0]])
        >>> paths = Path(0.6, 0.9, 0.1), Path(1.2, 1.3, 0.1)
        >>> found = search_bounds(r, a, torch.ones(1, 3), 0.7, paths, "gradient")
        >>> [round(value, 2) for value in found]
        [0.8, 1.3, 1.0, 3]
    """
    floors, ceilings = paths
    floor, ceiling, steps = floors.start, ceilings.start, 0
    while True:
        mass = weight * contributions(ratio, advantage, floor, ceiling, measure)
        reached = positive_share(mass, advantage)
        if reached >= share - _SLACK or (ceiling >= ceilings.end and floor >= floors.end):
            return Bounds(floor, ceiling, reached, steps)
        if ceiling < ceilings.end:
            ceiling = ceilings.after(ceiling)
        else:
            floor = floors.after(floor)
        steps += 1

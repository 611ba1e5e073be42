"""Round-robin tournaments: scores from pairwise win probabilities."""

from __future__ import annotations

import torch
from torch import Tensor


def win_rates(beats: Tensor) -> Tensor:
    """Compute the mean win probability, ``R_i = (1 / |J_i|) sum_{j in J_i} p(i beats j)``.

    ``J_i`` are the opponents of ``i``.

    Args:
        beats: ``p(i beats j)``, shape ``[N, N]``; NaN if the two have not met. The diagonal does
            not count.

    Returns:
        Shape ``[N]``, in [0, 1]; NaN for a player without opponents.

    Examples:
        >>> win_rates(torch.tensor([[0.0, 1.0, 0.5], [0.0, 0.0, 1.0], [0.5, 0.0, 0.0]]))
        tensor([0.7500, 0.5000, 0.2500])
    """
    alone = torch.eye(len(beats), dtype=torch.bool, device=beats.device)
    return beats.masked_fill(alone, torch.nan).nanmean(1)


def ranks(scores: Tensor) -> Tensor:
    """Compute the share of the others with a lower score; ties count half.

    Args:
        scores: shape ``[N]``; NaN takes no part.

    Returns:
        Shape ``[N]``, in [0, 1], mean 1/2; NaN if the score is NaN or the only score.

    Examples:
        >>> ranks(torch.tensor([0.9, 0.2, 0.2, 0.1]))
        tensor([1.0000, 0.5000, 0.5000, 0.0000])
    """
    gap = scores[:, None] - scores[None, :]
    ahead = torch.where(gap.isnan(), torch.nan, (gap > 0) + 0.5 * (gap == 0))
    return win_rates(ahead.to(scores.dtype))

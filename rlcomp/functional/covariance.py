"""Token selection by covariance of log-prob and advantage (Clip-Cov, KL-Cov)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.functional.ratio_distance import ROUNDING


def covariance(log_probs: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    """Compute the token-wise covariance of log-prob and advantage (Clip-Cov, KL-Cov).

    Args:
        log_probs: shape ``[B, T]``, nats; of the whole optimiser step.
        advantage: shape ``[B, T]``, in reward units.
        mask: shape ``[B, T]``, bool.

    Returns:
        ``(advantage - mean) * (log_probs - mean)``, both means over the mask; shape ``[B, T]``, at
        least float32, 0 outside the mask.

    Source:
        Cui et al. 2025 (the entropy mechanism), arXiv:2505.22617, section 4.

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


def count_of(mask: Tensor, share: float) -> int:
    """Count the tokens in a share of the mask: ``max(1, floor(share * N))``.

    Args:
        mask: shape ``[B, T]``, bool.
        share: in [0, 1], dimensionless.

    Returns:
        An int, tokens.

    Source:
        Cui et al. 2025 (Clip-Cov: r N), arXiv:2505.22617, section 4.2; rounded as in verl.

    Examples:
        >>> count_of(torch.ones(2, 5, dtype=torch.bool), 0.25)
        2
    """
    return max(1, int(share * int(mask.sum())))


def highest(values: Tensor, eligible: Tensor, count: int) -> Tensor:
    """Select the ``count`` largest eligible values; ties with the last of them are all selected.

    Values within 1e-5 tie: responses with a common prefix have equal values up to rounding. The
    selection then depends neither on the order of rows nor on how they were batched.

    Args:
        values: shape ``[B, T]``.
        eligible: shape ``[B, T]``, bool.
        count: at least 1.

    Returns:
        Shape ``[B, T]``, bool.

    Source:
        Cui et al. 2025 (KL-Cov), arXiv:2505.22617, section 4.2.

    Examples:
        >>> highest(torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[True, False, True]]), 1)
        tensor([[False, False,  True]])
    """
    candidates = values[eligible]
    if not candidates.numel():
        return torch.zeros_like(eligible)
    last = candidates.topk(min(count, candidates.numel())).values[-1]
    return eligible & (values >= last - ROUNDING)


def drawn(eligible: Tensor, by: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw at most ``count`` eligible tokens at random.

    Candidates are first sorted by ``by``, so that neither padding nor the order of rows (except
    among ties) changes the draw. ``by`` must be data: rounding makes model outputs differ between
    responses with a common prefix.

    Args:
        eligible: shape ``[B, T]``, bool.
        by: values to sort by, shape ``[B, T]``.
        count: at least 1.
        generator: on the CPU.

    Returns:
        Shape ``[B, T]``, bool.

    Source:
        Cui et al. 2025 (Clip-Cov), arXiv:2505.22617, section 4.2.

    Examples:
        >>> all_ = torch.ones(1, 4, dtype=torch.bool)
        >>> drawn(all_, torch.arange(4.0)[None], 3, torch.Generator()).sum()
        tensor(3)
    """
    places = eligible.nonzero()
    order = by[eligible].argsort(stable=True)
    picks = torch.randperm(len(places), generator=generator)[:count].to(order.device)
    rows, columns = places[order[picks]].unbind(1)
    result = torch.zeros_like(eligible)
    result[rows, columns] = True
    return result

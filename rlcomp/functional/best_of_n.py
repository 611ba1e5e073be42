"""Best-of-n sampling: value of the answer that a proxy selects, and its KL to the policy."""

from __future__ import annotations

from math import comb, log

import torch
from torch import Tensor

from rlcomp.errors import ShapeError


def best_of_n(proxy: Tensor, values: Tensor, n: int) -> Tensor:
    """Estimate the value of best-of-n, the answer with the largest proxy among n, without bias.

    ``sum_{i=n}^{N} v_(i) C(i-1, n-1) / C(N, n)``, ``v_(i)`` the values in ascending order of the
    proxy: the mean over all n-subsets of the N answers. Answers with the same proxy are selected
        equally often, so that each counts with the mean value of the tied block.

    Args:
        proxy: the score that selects, shape ``[P, N]``: N answers to each of P prompts.
        values: value of each answer, shape ``[P, N]``; the proxy itself, or a gold reward.
        n: from 1 (the mean) to N (the selected one of all).

    Returns:
        Shape ``[P]``, float64, in the unit of the values.

    Raises:
        ShapeError: the shapes differ, or ``n`` is not from 1 to N.

    Source:
        Gao et al. 2022, arXiv:2210.10760, appendix B; Nakano et al. 2021, arXiv:2112.09332,
        appendix I.

    Examples:
        >>> proxy, gold = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.0, 1.0, 0.5]])
        >>> [round(float(best_of_n(proxy, gold, n)), 4) for n in (1, 2, 3)]
        [0.5, 0.6667, 0.5]
    """
    if proxy.shape != values.shape or proxy.ndim != 2:
        shapes = f"{[*proxy.shape]} and {[*values.shape]}"
        raise ShapeError(f"'proxy' and 'values' have the shapes {shapes}: must be one [P, N]")
    if not 1 <= n <= proxy.shape[1]:
        raise ShapeError(f"best of {n} of {proxy.shape[1]} answers: n must be from 1 to that")
    ordered, order = proxy.sort(dim=1)
    ranked = values.double().gather(1, order)
    total = proxy.shape[1]
    # Python's integers are exact where C(N, n) is above what float64 holds.
    shares = [comb(i, n - 1) / comb(total, n) for i in range(total)]
    weights = torch.tensor(shares, dtype=torch.float64, device=ranked.device)
    block, size = _blocks(ordered)
    means = _sums(ranked.flatten(), block, len(size)) / size
    return (means[block].view_as(ranked) * weights).sum(1)


def best_of_n_kl(proxy: Tensor, n: int) -> Tensor:
    """Compute the KL of best-of-n to the sampling policy, in nats.

    ``log n - (n - 1) / n`` where all proxies differ, less with ties. A block of ties with the ranks
    ``a < u <= b`` (shares of all answers) is selected with probability ``q = b^n - a^n`` and has
    the mass ``b - a``: it adds ``q log(q / (b - a))``. An answer without ties counts as part of a
    continuous range: ``n u^{n-1} log(n u^{n-1})``, integrated over its ranks.

    Args:
        proxy: the score that selects, shape ``[P, N]``.
        n: at least 1.

    Returns:
        Shape ``[P]``, float64. It is an estimate where ties are rare: a tied answer drawn only once
        counts as untied, and the result is too large. It never exceeds the formula without ties.

    Source:
        Stiennon et al. 2020, arXiv:2009.01325, appendix G.3; an upper bound with ties: Beirami et
        al. 2024, arXiv:2401.01879.

    Examples:
        >>> best_of_n_kl(torch.tensor([[0.1, 0.2], [0.5, 0.5]]), 2)
        tensor([0.1931, 0.0000], dtype=torch.float64)
    """
    prompts, total = proxy.shape
    _, size = _blocks(proxy.sort(dim=1).values)
    prompt = torch.arange(prompts, device=proxy.device).repeat_interleave(total)
    ends = size.cumsum(0)
    of = prompt[ends - 1]
    above = (ends - of * total).double() / total
    mass = size.double() / total
    below = above - mass
    selected = above**n - below**n
    tied = torch.xlogy(selected, selected / mass)
    alone = _antiderivative(above, n) - _antiderivative(below, n)
    return _sums(torch.where(size > 1, tied, alone), of, prompts)


def _blocks(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Return the run of equal numbers of each entry, flattened, and the sizes of the runs."""
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    block = starts.flatten().long().cumsum(0) - 1
    return block, block.bincount()


def _sums(values: Tensor, index: Tensor, count: int) -> Tensor:
    return values.new_zeros(count).index_add_(0, index, values)


def _antiderivative(rank: Tensor, n: int) -> Tensor:
    """Integrate ``n u^{n-1} log(n u^{n-1})``: ``u^n (log n + (n - 1) log u - (n - 1) / n)``."""
    power = rank**n
    return power * (log(n) - (n - 1) / n) + (n - 1) * torch.xlogy(power, rank)

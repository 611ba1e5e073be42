"""Advantages and weights of the best of k responses.

``reward``, ``group_id`` (int64), ``valid`` (bool) and the results of functions of groups are
``[B]``. Rewards are in reward units. A ``k`` of None is the number of valid responses of the group.
NumericalError if a valid reward is not finite.
"""

from __future__ import annotations

from math import comb, log

import torch
from torch import Tensor

from rlcomp.errors import ShapeError
from rlcomp.functional.group_statistics import Groups, is_rounding


def best_of_k(values: Tensor, k: int) -> Tensor:
    """Compute the mean over all k-subsets of their largest value (unbiased estimate of max@k).

    ``sum_i v_(i) C(i-1, k-1) / C(n, k)``, ``v_(1) <= ... <= v_(n)``. ``values`` are ``[n]``, ``k``
    is from 1 to n; the result is a scalar in the units of the values.

    Source: Walder & Karkhanis 2025 (PKPO), arXiv:2505.15201; with values 0 and 1 it is pass@k, Chen
    et al. 2021, arXiv:2107.03374, eq. 1.

    Examples:
        >>> best_of_k(torch.tensor([1.0, 0.0, 0.0, 0.0]), 2)
        tensor(0.5000)
    """
    return (values.sort().values * _largest(len(values), k).to(values.dtype)).sum()


def group_best_of_k(reward: Tensor, group_id: Tensor, valid: Tensor, k: int | None) -> Tensor:
    """Compute :func:`best_of_k` of the group of each response, ``[B]``.

    NaN for invalid rows and in groups of fewer than k valid ones.

    Examples:
        >>> group, valid = torch.tensor([0, 0, 0, 1]), torch.ones(4, dtype=torch.bool)
        >>> group_best_of_k(torch.tensor([1.0, 0.0, 0.0, 1.0]), group, valid, 2)
        tensor([0.6667, 0.6667, 0.6667,    nan])
    """
    groups = Groups(reward, group_id, valid)
    best = torch.full_like(groups.reward, torch.nan)
    for rows in groups.members(groups.valid):
        size = len(rows) if k is None else k
        if len(rows) >= size:
            best[rows] = best_of_k(groups.reward[rows], size)
    return best.to(reward.device)


def pkpo_advantage(
    reward: Tensor, group_id: Tensor, valid: Tensor, k: int | None, epsilon: float | None
) -> Tensor:
    """Compute PKPO's advantage: how much a response raises the best reward of its k-subsets.

    ``A_i = (1 / C(n, k)) sum_{|I| = k, i in I} (max_I R - max_{I - i} R)``; the divisor of ``A_i``
    is ``std_g(R) + epsilon``, or 1 where ``epsilon`` is None. With rewards sorted upwards,
    ``A_(i) = sum_{j < i} C(j-1, k-2) / C(n, k) (R_(i) - R_(j))``. With ``k = n`` only a single best
    response is above 0: ``R_(n) - R_(n-1)``. ``k`` is at least 2. The advantage is 0 for invalid
    rows, in groups of equal rewards and in groups of fewer than ``k`` valid rows.

    ``sum_i A_i grad log pi(y_i)`` is an unbiased estimate of the gradient of the expected best of
    k. A mean over responses is 1 / n of this sum.

    Source: Walder & Karkhanis 2025 (PKPO), arXiv:2505.15201, eq. 33 (the baseline ``loo - 1``); k =
    n: Tang et al. 2025, arXiv:2503.19595. The division is verl's.

    Examples:
        >>> group, valid = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.bool)
        >>> pkpo_advantage(torch.tensor([1.0, 0.0, 1.0, 0.0]), group, valid, 2, None)
        tensor([0.3333, 0.0000, 0.3333, 0.0000])
        >>> pkpo_advantage(torch.tensor([0.0, 1.0, 0.25, 0.0]), group, valid, None, None)
        tensor([0.0000, 0.7500, 0.0000, 0.0000])
    """
    groups = Groups(reward, group_id, valid)
    advantage = torch.zeros_like(groups.reward)
    for rows in groups.members(groups.comparable):
        size = len(rows) if k is None else k
        if len(rows) >= size:
            advantage[rows] = _gain(groups.reward[rows], size)
    if epsilon is not None:
        advantage = advantage / (groups.std() + epsilon)
    return advantage.to(reward.device)


def pass_at_k_training_advantage(reward: Tensor, group_id: Tensor, valid: Tensor, k: int) -> Tensor:
    """Compute Pass@k training's advantage: the mean standardised reward of a response's subsets.

    ``A_i = (mean_{|I| = k, i in I} max_I R - mean_{|I| = k} max_I R) / std_{|I| = k}(max_I R)``,
    over all ``C(n, k)`` subsets and with their population std. With rewards 0 and 1 and ``c``
    successes: ``P = 1 - C(n - c, k) / C(n, k)``, ``std = sqrt(P (1 - P))``, ``A = (1 - P) / std``
    for a success and ``A = (1 - P - C(n - c - 1, k - 1) / C(n - 1, k - 1)) / std`` for a failure.

    Dimensionless; ``k`` is at least 2. The advantage is 0 where all subsets have the same best
    reward, for invalid rows and in groups of fewer than ``k`` valid rows.

    Source: Chen et al. 2025 (Pass@k training), arXiv:2508.10751: the analytical derivation, here
    for any rewards.

    Examples:
        >>> group, valid = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.bool)
        >>> pass_at_k_training_advantage(torch.tensor([1.0, 0.0, 0.0, 0.0]), group, valid, 2)
        tensor([ 1.0000, -0.3333, -0.3333, -0.3333])
    """
    groups = Groups(reward, group_id, valid)
    advantage = torch.zeros_like(groups.reward)
    for rows in groups.members(groups.comparable):
        if len(rows) >= k:
            advantage[rows] = _subset_mean(groups.reward[rows], k)
    return advantage.to(reward.device)


def _largest(n: int, k: int) -> Tensor:
    """Compute the share of k-subsets of n whose largest element is the j-th from below, ``[n]``."""
    shares = [comb(j, k - 1) / comb(n, k) for j in range(n)]
    return torch.tensor(shares, dtype=torch.float64)


def _gain(values: Tensor, k: int) -> Tensor:
    """Return how much each value raises the maximum of a k-subset, averaged over all of them.

    A subset without the value adds 0 to its average.
    """
    n, (ordered, order) = len(values), values.detach().sort()
    # Each subset holds k - 1 others; the j-th is their largest.
    shares = values.new_tensor([comb(j, k - 2) / comb(n, k) for j in range(n)])
    lead = (ordered[:, None] - ordered[None, :]).tril(-1)
    return torch.empty_like(ordered).index_put_((order,), lead @ shares)


def _subset_mean(values: Tensor, k: int) -> Tensor:
    """Average the standardised best of a k-subset over the subsets that hold each value."""
    n, (ordered, order) = len(values), values.detach().sort()
    shares = _largest(n, k).to(values.dtype)
    mean = (shares * ordered).sum()
    std = (shares * (ordered - mean).square()).sum().sqrt()
    if bool(is_rounding(ordered[k - 1], ordered[-1])):  # the best of all subsets is the same
        return torch.zeros_like(ordered)
    # C(n - 1, k - 1) subsets hold the i-th value. It is the largest in C(i - 1, k - 1) of them, and
    # the j-th, above it, is the largest in C(j - 2, k - 2).
    subsets = comb(n - 1, k - 1)
    itself = [comb(i, k - 1) / subsets for i in range(n)]
    above = [0.0, *(comb(j - 1, k - 2) / subsets for j in range(1, n))]
    weights = values.new_tensor(above).expand(n, n).triu(1) + values.new_tensor(itself).diag()
    average = ((ordered - mean)[None, :] * weights).sum(1) / std
    return torch.empty_like(ordered).index_put_((order,), average)


def best_of_n(proxy: Tensor, values: Tensor, n: int) -> Tensor:
    """Estimate the value of best-of-n, the answer with the largest proxy among n, without bias.

    ``sum_{i=n}^{N} v_(i) C(i-1, n-1) / C(N, n)``, ``v_(i)`` the values in ascending order of the
    proxy: the mean over all n-subsets of the N answers. Answers with the same proxy are selected
    equally often, so that each counts with the mean value of the tied block.

    ``proxy`` and ``values`` are ``[P, N]``, the result ``[P]``, float64. ShapeError if the shapes
    differ, or ``n`` is not from 1 to N.

    Source: Gao et al. 2022, arXiv:2210.10760, appendix B; Nakano et al. 2021, arXiv:2112.09332,
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
    """Compute the KL of best-of-n to the sampling policy, in nats, ``[P]``, float64.

    ``proxy`` is ``[P, N]``, the scores of N answers to each of P prompts; ``n`` is at least 1.

    ``log n - (n - 1) / n`` where all proxies differ, less with ties. A block of ties with the ranks
    ``a < u <= b`` (shares of all answers) is selected with probability ``q = b^n - a^n`` and has
    the mass ``b - a``: it adds ``q log(q / (b - a))``. An answer without ties counts as part of a
    continuous range: ``n u^{n-1} log(n u^{n-1})``, integrated over its ranks.

    It is an estimate where ties are rare: a tied answer drawn only once counts as untied, and the
    result is too large. It never exceeds the formula without ties.

    Source: Stiennon et al. 2020, arXiv:2009.01325, appendix G.3; an upper bound with ties: Beirami
    et al. 2024, arXiv:2401.01879.

    Examples:
        >>> best_of_n_kl(torch.tensor([[0.1, 0.2], [0.5, 0.5]]), 2)
        tensor([0.1931, 0.0000], dtype=torch.float64)
    """
    prompts, total = proxy.shape
    _, size = _blocks(proxy.sort(dim=1).values)
    prompt = torch.arange(prompts, device=proxy.device).repeat_interleave(total)
    ends = size.cumsum(0)
    block_prompt = prompt[ends - 1]
    above = (ends - block_prompt * total).double() / total
    mass = size.double() / total
    below = above - mass
    selected = above**n - below**n
    tied = torch.xlogy(selected, selected / mass)
    untied = _antiderivative(above, n) - _antiderivative(below, n)
    return _sums(torch.where(size > 1, tied, untied), block_prompt, prompts)


def _blocks(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of each entry's run of equal entries, ``[P * N]``, and the runs' sizes.

    ``ordered`` is ``[P, N]``, sorted in each row; a run is within one row.
    """
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

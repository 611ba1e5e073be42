"""Group-relative advantages (GRPO, Dr. GRPO, RLOO, OPO, MaxRL, GPG, GDPO, ReMax, OTB).

``reward`` (in reward units), ``group_id`` (int64, any values in any order) and ``valid`` (rows
whose reward could be computed) are ``[B]``. Advantages are ``[B]``: in reward units, or
dimensionless where the equation divides by rewards. They are exactly 0 for invalid rows, groups of
one and groups of equal rewards; std is unbiased (n - 1). NumericalError if a valid reward is not
finite.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlcomp.errors import ConfigError, NumericalError
from rlcomp.functional.group_statistics import ROUNDING, Groups, is_rounding, weighted_total
from rlcomp.functional.reduction import masked


def group_centred(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Subtract the group's mean from each reward (Dr. GRPO): ``A_i = R_i - mean_g(R)``.

    Source: Shao et al. 2024, arXiv:2402.03300, eq. 3 without the division; Liu et al. 2025 (Dr.
    GRPO).

    Examples:
        >>> reward, group = torch.tensor([1.0, 0, 0, 1, 0]), torch.zeros(5, dtype=torch.int64)
        >>> group_centred(reward, group, torch.ones(5, dtype=torch.bool))
        tensor([ 0.6000, -0.4000, -0.4000,  0.6000, -0.4000])
    """
    return Groups(reward, group_id, valid).centred().to(reward.device)


def group_standardised(reward: Tensor, group_id: Tensor, valid: Tensor, epsilon: float) -> Tensor:
    """Standardise rewards in their group (GRPO).

    ``A_i = (R_i - mean_g(R)) / (std_g(R) + epsilon)``.

    Source: Shao et al. 2024, arXiv:2402.03300, eq. 3.
    """
    groups = Groups(reward, group_id, valid)
    return groups.where_comparable(groups.centred() / (groups.std() + epsilon)).to(reward.device)


def group_batch_standardised(
    reward: Tensor, group_id: Tensor, valid: Tensor, epsilon: float
) -> Tensor:
    """Standardise with the group's mean and the std of all valid rewards of the batch.

    ``A_i = (R_i - mean_g(R)) / (std_B(R) + epsilon)``.

    Source: Liu et al. 2025, arXiv:2508.08221.

    Examples:
        >>> reward, group = torch.tensor([1.0, -1.0, 5.0, 5.0]), torch.tensor([0, 0, 1, 1])
        >>> group_batch_standardised(reward, group, torch.ones(4, dtype=torch.bool), 1e-6)
        tensor([ 0.3333, -0.3333,  0.0000,  0.0000])
    """
    groups = Groups(reward, group_id, valid)
    return (groups.centred() / (_std(groups.reward[groups.valid]) + epsilon)).to(reward.device)


def leave_one_out(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Subtract the mean reward of the other valid rows of the group (RLOO).

    ``A_i = R_i - mean_{j != i} R_j = (n / (n - 1)) (R_i - mean_g(R))``.

    Source: Ahmadian et al. 2024, arXiv:2402.14740, eq. 8; Kool et al. 2019.

    Examples:
        >>> group, valid = torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool)
        >>> leave_one_out(torch.tensor([1.0, 0.0, 0.0]), group, valid)
        tensor([ 1.0000, -0.5000, -0.5000])
    """
    groups = Groups(reward, group_id, valid)
    others = (groups.count - 1).clamp(min=1)
    return (groups.centred() * groups.count / others).to(reward.device)


def length_weighted(reward: Tensor, length: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Subtract the length-weighted mean reward of the group (OPO).

    ``A_i = R_i - sum_j n_j R_j / sum_j n_j``; ``length`` ``n`` ``[B]`` counts tokens. The
    variance-optimal baseline weights rewards by the squared norm of the score function, which grows
    with the length.

    Source: Hao et al. 2025, arXiv:2505.23585 (OPO).

    Examples:
        >>> group, valid = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)
        >>> length_weighted(torch.tensor([1.0, 0.0]), torch.tensor([3, 1]), group, valid)
        tensor([ 0.2500, -0.7500])
    """
    groups = Groups(reward, group_id, valid)
    weight = torch.where(groups.valid, length.cpu().to(groups.reward.dtype), 0)
    baseline = groups.total(weight * groups.reward) / groups.total(weight).clamp(min=1)
    return groups.where_comparable(groups.reward - baseline).to(reward.device)


def mean_normalised(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Divide the group-centred reward by the group's mean reward (MaxRL).

    ``A_i = (R_i - mean_g(R)) / mean_g(R)``. With rewards 0 and 1 and success rate p, the
    expectation of ``mean_i A_i grad log pi(y_i)`` is ``sum_{j=0}^{n-2} (1 - p)^j grad p``: the
    gradient of ``log p`` up to order ``n - 1``. NumericalError if a valid reward is negative.

    Source: Tajwar et al. 2026 (MaxRL), arXiv:2602.02710.

    Examples:
        >>> group, valid = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.bool)
        >>> mean_normalised(torch.tensor([1.0, 0.0, 0.0, 0.0]), group, valid)
        tensor([ 3., -1., -1., -1.])
    """
    groups = Groups(reward, group_id, valid)
    if bool((groups.reward < 0).any()):
        row = int((groups.reward < 0).nonzero()[0])
        raise NumericalError(
            f"reward of row {row} is {float(groups.reward[row])}: MaxRL divides by the mean of a "
            "group's rewards, which takes rewards of at least 0; shift them, pay penalties "
            "elsewhere (kl=in_loss) or take advantage=group_mean"
        )
    mean = groups.total(groups.reward) / groups.count
    # Where rewards differ and none is negative, the mean is above 0.
    return (groups.centred() / torch.where(groups.comparable, mean, 1.0)).to(reward.device)


def gpg_advantage(reward: Tensor, group_id: Tensor, valid: Tensor) -> Tensor:
    """Divide the group-centred reward by the share of non-zero rewards among valid rows (GPG).

    ``A_i = (N / #{j: R_j != 0}) (R_i - mean_g(R))``; ``N`` and ``j`` count the valid rows of the
    batch.

    Source: Chu et al. 2025, arXiv:2504.02546 (GPG), as in verl.
    """
    groups = Groups(reward, group_id, valid)
    factor = groups.valid.sum() / (groups.reward != 0).sum().clamp(min=1)
    return (factor * groups.centred()).to(reward.device)


def gdpo_advantage(
    rewards: Mapping[str, Tensor],
    weights: Mapping[str, float],
    group_id: Tensor,
    valid: Tensor,
    epsilon: float,
) -> Tensor:
    """Sum several rewards, each standardised in its group, and divide by the std (GDPO).

    ``S = sum_k w_k (R_k - mean_g) / (std_g + epsilon)`` and ``A = S / (std_B(S) + epsilon)``, with
    ``std_B`` over the valid rows of the batch. The mean of ``S`` is 0 in every group, so it is not
    subtracted. ``rewards`` has ``[B]`` for each name of ``weights``.

    Source: Liu et al. 2026, arXiv:2601.05242 (GDPO).
    """
    parts, noise = {}, torch.zeros(group_id.shape)
    for name, weight in weights.items():
        parts[name] = group_standardised(rewards[name], group_id, valid, epsilon).cpu()
        spread = Groups(rewards[name], group_id, valid).std() + epsilon
        size = Groups(rewards[name].abs(), group_id, valid).highest(valid.cpu().bool())
        noise = noise + abs(weight) * ROUNDING * size / spread
    total = weighted_total(parts, weights)
    # Parts of opposite sign leave a rounding error.
    total = torch.where(total.abs() > noise, total, 0.0).to(valid.device)
    return total / (_std(total[valid.bool()]) + epsilon)


def _std(values: Tensor) -> Tensor:
    """Compute the unbiased standard deviation; 0 for fewer than two values."""
    return values.std() if values.numel() > 1 else values.new_zeros(())


def greedy_baseline(
    reward: Tensor, group_id: Tensor, valid: Tensor, greedy: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the ReMax baseline: the mean reward of the greedy responses to the row's prompt.

    Return the baseline, in reward units, and its mask, ``[B]`` each; the mask is False where no
    greedy answer has a valid reward. ConfigError if a group has no greedy answer.

    Source: Li et al. 2023, arXiv:2310.10505 (ReMax), eq. 5.

    Examples:
        >>> greedy, group = torch.tensor([False, True]), torch.tensor([4, 4])
        >>> valid = torch.tensor([True, True])
        >>> greedy_baseline(torch.tensor([1.0, 0.5]), group, valid, greedy)
        (tensor([0.5000, 0.5000]), tensor([True, True]))
    """
    groups, chosen = Groups(reward, group_id, valid), greedy.cpu().bool()
    lacking = groups.total(chosen.to(groups.reward.dtype)) == 0
    if bool(lacking.any()):
        row = int(lacking.nonzero()[0])
        raise ConfigError(
            f"group {int(group_id[row])} (row {row}) has no greedy answer, which is its baseline: "
            "collect with collector@rollout=greedy_baseline, and let no stage drop its rows"
        )
    chosen = chosen & groups.valid
    count = groups.total(chosen.to(groups.reward.dtype))
    baseline = groups.total(masked(groups.reward, chosen)) / count.clamp(min=1)
    return baseline.to(reward.device), (count > 0).to(reward.device)


def squared_score_norm(log_probs: Tensor, squared_probs: Tensor, mask: Tensor) -> Tensor:
    """Compute the squared norm of ``grad_logits log pi(a)``: ``1 - 2 pi(a) + sum_v pi(v)^2``.

    This is ``|onehot(a) - pi|^2``, expanded. Arguments and result are ``[B, T]``; the result is
    from 0 to 2, and 0 outside the mask. ``log_probs`` is ``log pi(a)``, ``squared_probs``
    ``sum_v pi(v)^2``.

    Examples:
        >>> half, one = torch.tensor([[0.5]]), torch.ones(1, 1, dtype=torch.bool)
        >>> squared_score_norm(half.log(), half, one)
        tensor([[0.5000]])
    """
    norm = 1 - 2 * masked(log_probs, mask).exp() + masked(squared_probs, mask)
    # Rounding can take the norm of a deterministic policy below 0.
    return masked(norm.clamp(min=0), mask)


def weighted_token_advantage(
    returns: Tensor, weight: Tensor, mask: Tensor, group_id: Tensor
) -> Tensor:
    """Subtract the weighted group mean at each position from returns (optimal token baseline).

    The result is the advantage, not the baseline:
    ``A_it = G_it - sum_j W_jt G_jt / sum_j W_jt`` over the responses of the group with a token at
    ``t``. Columns are comparable because a group shares its prompt. ``returns`` ``G``, ``weight``
    ``W``, ``mask`` and the result are ``[B, T]``, the result in units of the returns. For the
    optimal baseline ``W`` is the summed :func:`squared_score_norm` up to the token. The result is
    exactly 0 outside the mask, and where the responses with a token at ``t`` have equal returns.
    The baseline is 0 where all weights are 0.

    Source: Li et al. 2026, The Optimal Token Baseline, PMLR 306, as in verl.
    """
    index = torch.unique(group_id, return_inverse=True)[1]
    empty = returns.new_zeros(int(index.max()) + 1 if len(index) else 0, returns.shape[1])
    weight, inside = masked(weight, mask), masked(returns, mask)
    total = empty.index_add(0, index, weight)
    baseline = empty.index_add(0, index, weight * inside) / torch.where(total > 0, total, 1)
    apart = _differ(returns, mask, index, empty)[index]
    return masked(inside - baseline[index], mask & apart)


def _differ(values: Tensor, mask: Tensor, index: Tensor, empty: Tensor) -> Tensor:
    """Test if the values of a group differ in a column by more than rounding, ``[G, T]``.

    ``index`` ``[B]`` is the group of a row, from 0 to G - 1; ``empty`` has the shape ``[G, T]``.
    """
    where, infinite = index[:, None].expand(values.shape), torch.full_like(empty, float("inf"))
    low = infinite.scatter_reduce(0, where, values.masked_fill(~mask, float("inf")), "amin")
    high = values.masked_fill(~mask, float("-inf"))
    high = (-infinite).scatter_reduce(0, where, high, "amax")
    return ~is_rounding(low, high)

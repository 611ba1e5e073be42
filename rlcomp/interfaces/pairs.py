"""Pairs of rows: the chosen side, and the weight of a pair."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import DataError
from rlcomp.functional.masked import masked


def first_is_chosen(chosen: Tensor) -> Tensor:
    """Return for each pair True if its first row is the chosen one; shape ``[U]``.

    Raises:
        DataError: a pair does not have exactly one chosen answer.
    """
    pairs = chosen.view(-1, 2)
    wrong = (pairs.sum(1) != 1).nonzero().flatten().tolist()
    if wrong:
        raise DataError(
            f"rows {2 * wrong[0]} and {2 * wrong[0] + 1} are a pair of which "
            f"{int(pairs[wrong[0]].sum())} are chosen: exactly one answer of a pair must be"
        )
    return pairs[:, 0]


def sides(values: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """Split values by answer, chosen and rejected, shape ``[U]`` each."""
    one, other = values.view(-1, 2).unbind(1)
    return torch.where(first, one, other), torch.where(first, other, one)


def by_pair_weight(row_weight: Tensor, pair_weight: Tensor) -> Tensor:
    """Weight every row's pair by its share of the weights of all pairs that count.

    Args:
        row_weight: 0 for pairs that do not count, shape ``[B]``.
        pair_weight: weight of a pair, the mean of both rows; shape ``[B]``.
    """
    own = pair_weight.view(-1, 2).mean(1).repeat_interleave(2)
    weight = masked(own, row_weight > 0)
    total = weight.sum() / 2
    return weight / torch.where(total > 0, total, 1.0)

"""Rows that are pairs: which side is chosen, and how much a pair counts."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcomp.errors import DataError
from rlcomp.functional.masked import masked


def first_is_chosen(chosen: Tensor) -> Tensor:
    """Of each pair, whether its first row is the chosen one; shape ``[U]``.

    Raises:
        DataError: a pair has not exactly one chosen answer.
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
    """The values of the chosen and of the rejected answers, shape ``[U]`` each."""
    one, other = values.view(-1, 2).unbind(1)
    return torch.where(first, one, other), torch.where(first, other, one)


def by_pair_weight(row_weight: Tensor, pair_weight: Tensor) -> Tensor:
    """The weight of every row's pair: its share of the weights of all pairs that count.

    Args:
        row_weight: 0 where a pair does not count, shape ``[B]``.
        pair_weight: how much it counts, the mean of both rows; shape ``[B]``.
    """
    own = pair_weight.view(-1, 2).mean(1).repeat_interleave(2)
    weight = masked(own, row_weight > 0)
    total = weight.sum() / 2
    return weight / torch.where(total > 0, total, 1.0)

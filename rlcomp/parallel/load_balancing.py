"""Load balancing: rows are divided among ranks evenly by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.parallel.ranks import current_ranks

# Entry of row numbers; it is no identifier, so no key has this name.
ROW = "(row)"
_PIECES_PER_RANK = 4

# Splits rows into pieces of at most this many tokens; None for the default.
Split = Callable[[TensorDict, "int | None"], Iterable[TensorDict]]


def assign_rows(rows: TensorDict, split: Split, size: int) -> list[Tensor]:
    """Return the rows of each rank, balanced by tokens; all ranks compute the same.

    Args:
        rows: rows of the whole step; with ``attention_mask`` ``[B, T]``.
        split: splits rows into pieces; the rows of a piece (a pair, a group) stay together.
        size: number of ranks.

    Returns:
        Indices of rows, int64, ascending; empty for ranks without a piece.
    """
    tokens = rows["attention_mask"].sum(1)
    numbered = rows.copy().set(ROW, torch.arange(len(tokens), device=tokens.device))
    budget = max(1, int(tokens.sum()) // (size * _PIECES_PER_RANK))
    pieces = [piece[ROW] for piece in split(numbered, budget)]
    costs = [int(tokens[piece].sum()) for piece in pieces]
    return [
        torch.cat([pieces[n] for n in share]).sort().values if share else tokens[:0].long()
        for share in balance(costs, size)
    ]


def balance(costs: Sequence[int], size: int) -> list[list[int]]:
    """Return the indices of each rank's pieces: the costliest first, to the least loaded rank.

    Source:
        Graham 1969, Bounds on multiprocessing timing anomalies (LPT).

    Examples:
        >>> balance([5, 3, 3, 1], 2)
        [[0, 3], [1, 2]]
    """
    shares, loads = [list[int]() for _ in range(size)], [0] * size
    for number in sorted(range(len(costs)), key=lambda n: -costs[n]):
        # Pieces without tokens are balanced by number.
        least = min(range(size), key=lambda rank: (loads[rank], len(shares[rank]), rank))
        shares[least].append(number)
        loads[least] += costs[number]
    return shares


@torch.no_grad()
def score_on_ranks(
    owner: nn.Module,
    rows: TensorDict,
    split: Split,
    read: Callable[[Any, TensorDict], Tensor],
) -> Tensor:
    """Compute a readout ``[B, T, ...]`` of rows; all ranks call this, and each row is read by one.

    Args:
        owner: a model that a learner trains.
        rows: ``[B]``, with ``attention_mask``; the same on all ranks.
        split: splits rows into pieces of one pass.
        read: computes the readout ``[b, T, ...]`` of some rows with a model.
    """
    ranks = current_ranks()
    weights = ranks.weights(owner)
    numbered = rows.copy().set(ROW, torch.arange(rows.shape[0], device=rows["tokens"].device))
    own = assign_rows(rows, split, ranks.size)[ranks.rank]
    pieces = [*split(numbered[own], None)] if len(own) else []
    idle = max(1, ranks.maximum(len(pieces))) - len(pieces)
    parts = [read(weights.module, piece) for piece in (*pieces, *[numbered[:1]] * idle)]
    weights.reshard()
    result = parts[0].new_zeros(rows.shape[0], *parts[0].shape[1:])
    for piece, part in zip(pieces, parts, strict=False):
        result[piece[ROW]] = part
    return ranks.all_reduce(result)

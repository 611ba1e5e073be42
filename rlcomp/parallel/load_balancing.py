"""Load balancing: rows are divided among ranks evenly by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.parallel.ranks import current_ranks

# Entry of row numbers in a batch; no key has this name, because it is no identifier.
ROW = "(row)"
# Pieces of rows per rank. More pieces balance better; fewer keep more rows of a prompt together.
_PIECES_PER_RANK = 4

# Splits rows into pieces of at most this many tokens; None for the default.
Split = Callable[[TensorDict, "int | None"], Iterable[TensorDict]]


def assign_rows(rows: TensorDict, split: Split, size: int) -> list[Tensor]:
    """Return the rows of each rank, balanced by tokens; all ranks compute the same.

    Args:
        rows: rows of the whole step, with ``attention_mask`` ``[B, T]``.
        split: splits rows into pieces; the rows of a piece stay together.
        size: number of ranks.

    Returns:
        Indices of the rows of each rank, int64, ascending; empty for a rank without a piece.
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
    """Divide pieces among ranks: the costliest piece first, each to the least loaded rank.

    Args:
        costs: cost of each piece, in tokens.
        size: number of ranks.

    Returns:
        The indices of each rank's pieces.

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
    compute: Callable[[Any, TensorDict], Tensor],
) -> Tensor:
    """Compute values of the tokens of rows; all ranks call this, and each rank computes some rows.

    Args:
        owner: a model that a learner trains.
        rows: ``[B]``, with ``tokens`` and ``attention_mask``; the same on all ranks.
        split: splits rows into pieces of one pass; a piece has all ``T`` columns.
        compute: computes the values ``[b, T, ...]`` of ``b`` rows with the model of this rank.

    Returns:
        The values of all rows, shape ``[B, T, ...]``, on every rank.
    """
    ranks = current_ranks()
    weights = ranks.weights(owner)
    numbered = rows.copy().set(ROW, torch.arange(rows.shape[0], device=rows["tokens"].device))
    local = assign_rows(rows, split, ranks.size)[ranks.rank]
    pieces = [*split(numbered[local], None)] if len(local) else []
    # Sharded weights need all ranks in every pass; one pass at least gives the shape of the values.
    num_idle = max(1, ranks.maximum(len(pieces))) - len(pieces)
    parts = [compute(weights.module, piece) for piece in (*pieces, *[numbered[:1]] * num_idle)]
    weights.reshard()
    result = parts[0].new_zeros(rows.shape[0], *parts[0].shape[1:])
    for piece, part in zip(pieces, parts, strict=False):
        result[piece[ROW]] = part
    return ranks.all_reduce(result)

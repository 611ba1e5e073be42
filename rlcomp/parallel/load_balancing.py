"""Load balancing: the rows of an optimiser step are divided among ranks evenly by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

# It is no identifier, so no key has this name.
ROW = "(row)"
# Number of pieces that a rank's share is cut into.
_CUTS = 4

# Splits rows into pieces of at most so many tokens; None for the learner's limit.
Split = Callable[[TensorDict, "int | None"], Iterable[TensorDict]]


def assign_rows(rows: TensorDict, split: Split, size: int) -> list[Tensor]:
    """Return the rows of each rank, balanced by tokens; all ranks compute the same.

    Each piece goes to the rank with the fewest tokens, the longest piece first. Rows of a unit (a
    pair) stay together, and those that share a prompt where ``split`` keeps them together.

    Args:
        rows: of the whole step; with ``attention_mask`` ``[B, T]``.
        split: splits rows into pieces of at most so many tokens.
        size: number of ranks.

    Returns:
        Indices of rows, int64, in ascending order; empty for ranks without a piece.
    """
    tokens = rows["attention_mask"].sum(1)
    numbered = rows.copy().set(ROW, torch.arange(len(tokens), device=tokens.device))
    budget = max(1, int(tokens.sum()) // (size * _CUTS))
    pieces = [piece[ROW] for piece in split(numbered, budget)]
    costs = [int(tokens[piece].sum()) for piece in pieces]
    return [
        torch.cat([pieces[n] for n in share]).sort().values if share else tokens[:0].long()
        for share in balance(costs, size)
    ]


def balance(costs: Sequence[int], size: int) -> list[list[int]]:
    """Return the indices of each rank's pieces: the longest first, to the least loaded rank.

    Source:
        Graham 1969, Bounds on multiprocessing timing anomalies (LPT).

    Examples:
        >>> balance([5, 3, 3, 1], 2)
        [[0, 3], [1, 2]]
    """
    shares, loads = [list[int]() for _ in range(size)], [0] * size
    for number in sorted(range(len(costs)), key=lambda n: -costs[n]):
        # Pieces without tokens are spread as well.
        least = min(range(size), key=lambda rank: (loads[rank], len(shares[rank]), rank))
        shares[least].append(number)
        loads[least] += costs[number]
    return shares

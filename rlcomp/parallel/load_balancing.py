"""Load balancing: the rows of an optimiser step, dealt out to ranks evenly by tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

# No identifier, so that no key is declared by such a name.
ROW = "(row)"
# Into how many pieces a share is cut before they are dealt: more even it out better.
_CUTS = 4

# Rows, and the most tokens of a piece; None for the learner's own limit.
Split = Callable[[TensorDict, "int | None"], Iterable[TensorDict]]


def assign_rows(rows: TensorDict, split: Split, size: int) -> list[Tensor]:
    """The rows of each rank, as even in tokens as pieces allow; every rank finds the same.

    Longest first, each piece to the rank with the fewest tokens. Rows of a unit (a pair) stay
    together, and those that share a prompt where ``split`` keeps them together.

    Args:
        rows: of the whole step; with ``attention_mask`` ``[B, T]``.
        split: into pieces of at most so many tokens.
        size: number of ranks.

    Returns:
        Indices of rows, int64, in ascending order; empty for ranks that are left over.
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
    """Numbers of pieces for each rank, the longest first to whoever has the least.

    Source:
        Graham 1969, Bounds on multiprocessing timing anomalies (LPT).

    Examples:
        >>> balance([5, 3, 3, 1], 2)
        [[0, 3], [1, 2]]
    """
    shares, held = [list[int]() for _ in range(size)], [0] * size
    for number in sorted(range(len(costs)), key=lambda n: -costs[n]):
        # A piece without tokens counts as well: so many ranks as there are pieces have one.
        least = min(range(size), key=lambda rank: (held[rank], len(shares[rank]), rank))
        shares[least].append(number)
        held[least] += costs[number]
    return shares

"""Passes without gradient that ranks share: log-probs, values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from rlcomp.parallel.load_balancing import ROW, Split, assign_rows
from rlcomp.parallel.ranks import Ranks


@torch.no_grad()
def score_on_ranks(
    ranks: Ranks,
    owner: nn.Module,
    rows: TensorDict,
    split: Split,
    read: Callable[[Any, TensorDict], Tensor],
) -> Tensor:
    """Return a readout of rows on all ranks; each row is read by one rank.

    Args:
        ranks: all of them call this.
        owner: a model that a learner trains.
        rows: ``[B]``, with ``attention_mask``; the same on all ranks.
        split: splits rows into pieces of one pass.
        read: the model and some rows to a tensor ``[b, T, ...]``.

    Returns:
        Shape ``[B, T, ...]``, in the order of the rows.
    """
    weights = ranks.weights(owner)
    numbered = rows.copy().set(ROW, torch.arange(rows.shape[0], device=rows["tokens"].device))
    own = assign_rows(rows, split, ranks.size)[ranks.rank]
    mine = [*split(numbered[own], None)] if len(own) else []
    idle = max(1, ranks.most(len(mine))) - len(mine)
    parts = [read(weights.module, piece) for piece in (*mine, *[numbered[:1]] * idle)]
    weights.rest()
    result = parts[0].new_zeros(rows.shape[0], *parts[0].shape[1:])
    for piece, part in zip(mine, parts, strict=False):
        result[piece[ROW]] = part
    return ranks.total(result)

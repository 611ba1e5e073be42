"""Splits of a batch: minibatches by rows, micro-batches and scoring batches by tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import trim
from rlcomp.engine.packing import split_by_tokens
from rlcomp.errors import ConfigError
from rlcomp.functional.reduction import masked


def minibatches(
    batch: TensorDict, number: int, unit_rows: int, generator: torch.Generator
) -> Iterator[TensorDict]:
    """Yield shuffled minibatches of nearly equal size; rows of a unit (a pair) stay together.

    A single minibatch is the batch, not shuffled.

    Args:
        batch: the batch; its units are adjacent rows.
        number: number of minibatches.
        unit_rows: number of rows of a unit.
        generator: random generator on the CPU.

    Raises:
        ConfigError: there are fewer units than minibatches, or a unit is incomplete.
    """
    units, remainder = divmod(batch.shape[0], unit_rows)
    if remainder:
        raise ConfigError(
            f"the batch has {batch.shape[0]} rows, not a multiple of {unit_rows} (pairs)"
        )
    if number == 1:
        yield batch
        return
    if units < number:
        raise ConfigError(
            f"num_minibatches is {number}, but the batch has only {units} units (rows or pairs): "
            "lower num_minibatches"
        )
    order = torch.randperm(units, generator=generator)
    for part in torch.tensor_split(order, number):
        yield batch[_rows(part, unit_rows)]


def micro_batches(
    batch: TensorDict, budget: int | None, unit_rows: int, *, packed: bool
) -> Iterator[TensorDict]:
    """Yield micro-batches within a token budget.

    Args:
        batch: holds ``attention_mask`` ``[B, T]`` when there is a budget.
        budget: maximum number of tokens; None for no split. A single unit may exceed it.
        unit_rows: number of rows of a unit; units are not split.
        packed: whether to count packed tokens (every prompt once) and group rows by prompt.
            Otherwise padding counts too, and rows are grouped by length.
    """
    if budget is None or batch["attention_mask"].numel() <= budget:
        yield batch
    elif packed:
        yield from (trim(batch[rows]) for rows in split_by_tokens(batch, budget, unit_rows))
    else:
        yield from _padded_pieces(batch, budget, unit_rows)


def split_by_length(response_mask: Tensor, budget: int) -> list[Tensor]:
    """Split rows, sorted by length, longest first, into batches of bounded size.

    Args:
        response_mask: shape ``[B, T]``, bool.
        budget: maximum number of tokens of a batch, with padding; a single row may exceed it.

    Returns:
        Indices of rows, int64; every row occurs once.

    Examples:
        >>> mask = torch.tensor([[False, True, False], [False, False, True]])
        >>> split_by_length(mask, 2)
        [tensor([1]), tensor([0])]
    """
    position = torch.arange(response_mask.shape[1], device=response_mask.device)
    # A row is read up to the token before its last response token.
    ends = masked(position.expand(response_mask.shape), response_mask).amax(1).clamp(min=1)
    lengths, order = ends.sort(descending=True, stable=True)
    batches, start = [], 0
    while start < len(order):
        stop = start + max(1, budget // int(lengths[start]))
        batches.append(order[start:stop])
        start = stop
    return batches


def _padded_pieces(batch: TensorDict, budget: int, unit_rows: int) -> Iterator[TensorDict]:
    """Yield pieces of units of similar length, the longest first, within a budget with padding."""
    lengths = batch["attention_mask"].sum(1).view(-1, unit_rows).amax(1)
    order = torch.argsort(lengths, descending=True, stable=True)
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        count = max(1, budget // (width * unit_rows))
        yield trim(batch[_rows(order[start : start + count], unit_rows)])
        start += count


def _rows(units: Tensor, unit_rows: int) -> Tensor:
    """Return the indices of the rows of some units."""
    return (
        units[:, None] * unit_rows + torch.arange(unit_rows, device=units.device)[None, :]
    ).flatten()

"""Minibatches (optimiser steps, by rows) and micro-batches (gradient accumulation, by tokens)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.batch import trim
from rlcomp.engine.packing import split_by_tokens
from rlcomp.errors import ConfigError


def minibatches(
    batch: TensorDict, number: int, unit_rows: int, generator: torch.Generator
) -> Iterator[TensorDict]:
    """Yield shuffled minibatches of nearly equal size; rows of a unit (a pair) stay together.

    Raises:
        ConfigError: there are fewer units than minibatches, or a unit is incomplete.
    """
    units, left = divmod(batch.shape[0], unit_rows)
    if left:
        raise ConfigError(
            f"the batch has {batch.shape[0]} rows, no multiple of {unit_rows} (pairs)"
        )
    if number == 1:
        yield batch
        return
    if units < number:
        raise ConfigError(f"num_minibatches is {number}, the batch has only {units} units to share")
    order = torch.randperm(units, generator=generator)
    for part in torch.tensor_split(order, number):
        yield batch[_rows(part, unit_rows)]


def micro_batches(
    batch: TensorDict, budget: int | None, unit_rows: int, *, packed: bool
) -> Iterator[TensorDict]:
    """Yield micro-batches within a token budget.

    Args:
        batch: holds ``attention_mask`` ``[B, T]`` when there is a budget.
        budget: tokens; None for no split. A single unit may exceed it.
        unit_rows: rows that stay together.
        packed: count the tokens that a packed forward pass reads, every prompt once, and keep the
            answers to a prompt together. Otherwise count padding as well, and keep rows of similar
            length together.
    """
    if budget is None or batch["attention_mask"].numel() <= budget:
        yield batch
    elif packed:
        yield from (trim(batch[rows]) for rows in split_by_tokens(batch, budget, unit_rows))
    else:
        yield from _padded_pieces(batch, budget, unit_rows)


def _padded_pieces(batch: TensorDict, budget: int, unit_rows: int) -> Iterator[TensorDict]:
    lengths = batch["attention_mask"].sum(1).view(-1, unit_rows).amax(1)
    order = torch.argsort(lengths, descending=True, stable=True)
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        count = max(1, budget // (width * unit_rows))
        yield trim(batch[_rows(order[start : start + count], unit_rows)])
        start += count


def _rows(units: Tensor, unit_rows: int) -> Tensor:
    return (
        units[:, None] * unit_rows + torch.arange(unit_rows, device=units.device)[None, :]
    ).flatten()

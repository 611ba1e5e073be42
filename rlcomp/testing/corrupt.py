"""Batch perturbations that must not change results (corruption, shuffling, padding, holes)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.testing.example import TOKEN_IDS
from rlcomp.testing.subject import Subject


def corrupted(subject: Subject, value: float = float("nan")) -> TensorDict:
    """Return the batch with NaN (or another value) and other ids outside the masks.

    Per-token floats and ``policy_version`` change outside the response, or outside the attention
    mask for a component that reads only this one. ``tokens`` change in the padding. ``reward`` and
    ``rewards`` change in rows without a valid reward, if the component reads ``reward_valid``.
    """
    changed = subject.batch.copy()
    for key in subject.reads:
        spec, entry = subject.spec(key), subject.batch[key]
        if spec.along_tokens and spec.dtype == "float":
            inside = subject.inside if spec.per_token else subject.inside[..., None]
            changed[key] = torch.where(inside, entry, torch.full_like(entry, value))
        elif spec.per_token and spec.dtype == "int64":
            tokens = subject.names.get(key, key) == "tokens"
            mask = subject.attention if tokens else subject.inside
            changed[key] = torch.where(mask, entry, (entry + 1) % TOKEN_IDS)
        elif spec.shape == "B" and spec.dtype == "float":
            changed[key] = _invalid(subject, entry, value)
    return changed


def _invalid(subject: Subject, entry: Tensor | TensorDict, value: float) -> Tensor | TensorDict:
    if subject.name("reward_valid") not in subject.reads:
        return entry
    mask: Tensor = subject.batch[subject.name("reward_valid")]
    if isinstance(entry, Tensor):
        return torch.where(mask, entry, torch.full_like(entry, value))
    parts = {
        key: torch.where(mask, part, torch.full_like(part, value)) for key, part in entry.items()
    }
    return TensorDict(parts, batch_size=entry.batch_size)


def shuffled_rows(rows: int, unit_rows: int = 1) -> Tensor:
    """Return a permutation of the rows, not the identity; rows of a unit stay together."""
    draw = torch.Generator().manual_seed(1)
    units = torch.randperm(rows // unit_rows, generator=draw)
    return (units[:, None] * unit_rows + torch.arange(unit_rows)).flatten()


def relabelled(group_id: Tensor) -> Tensor:
    """Return the same groups under other ids, in another order."""
    _, index = torch.unique(group_id, return_inverse=True)
    relabelled_id: Tensor = 100 - 7 * index
    return relabelled_id


def renamed_groups(named: Tensor, group_id: Tensor) -> Tensor:
    """Rename ids of groups after :func:`relabelled`; ids that name no group stay."""
    names = dict(zip(group_id.tolist(), relabelled(group_id).tolist(), strict=True))
    return torch.tensor([names.get(one, one) for one in named.tolist()])


def widened(subject: Subject, batch: TensorDict, columns: int = 3) -> TensorDict:
    """Return the batch with additional right padding."""
    wide = batch.copy()
    for key in subject.reads:
        if subject.spec(key).along_tokens:
            beyond = (0, 0) * (batch[key].ndim - 2)
            wide[key] = F.pad(batch[key], (*beyond, 0, columns))
    return wide


def with_hole(
    subject: Subject, rows: TensorDict, place: int, columns: int = 3
) -> tuple[TensorDict, Tensor]:
    """Return a batch with columns that the policy did not write, such as an agent's observation.

    The columns can be read, but are not in the response, and hold NaN or the key's filler.

    Args:
        subject: reads ``response_mask``.
        rows: a batch of the keys it reads.
        place: the column that follows them.
        columns: their number.

    Returns:
        The batch, and the mask of new columns, shape ``[T + columns]``.
    """
    width = rows[subject.name("response_mask")].shape[1]
    beside = min(place, width - 1)
    origin = torch.tensor([*range(place), *[beside] * columns, *range(place, width)])
    hole = torch.zeros(len(origin), dtype=torch.bool)
    hole[place : place + columns] = True
    batch = rows.copy()
    for key in subject.reads:
        if subject.spec(key).along_tokens:
            batch[key] = batch[key][:, origin].clone()
            # The attention mask covers the new columns as it covers the policy's tokens behind
            # them.
            if key != subject.name("attention_mask"):
                nothing = float("nan") if batch[key].is_floating_point() else subject.spec(key).fill
                batch[key][:, hole] = nothing
    return batch, hole

"""Batch operations: texts and columns as uint8 tensors, concatenation, trimming of padding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tensordict import TensorDict
from torch import Tensor

from rlcomp.columns import column_text
from rlcomp.errors import ShapeError
from rlcomp.keys import TEXT_END, lookup, prompt_keys

# Value of a column in rows whose example lacks it.
_NULL = "null"


def encode_texts(texts: Sequence[str]) -> Tensor:
    """Encode texts as one uint8 tensor that can be indexed, joined and saved like any other entry.

    1,024 NonTensor strings take 10 ms to stack and 9 ms to read; this takes 1 ms.

    Returns:
        Shape ``[B, W]``, uint8: UTF-8 bytes, terminated and padded with 0xFF.

    Examples:
        >>> decode_texts(encode_texts(["24", "né"]))
        ['24', 'né']
    """
    if not texts:
        return torch.full((0, 1), TEXT_END, dtype=torch.uint8)
    # A surrogate (an undecodable byte) cannot be UTF-8: it becomes "?".
    rows = np.array([text.encode("utf-8", "replace") + b"\xff" for text in texts])
    width = rows.dtype.itemsize
    table = rows.view(np.uint8).reshape(len(texts), width)
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(texts))
    table = np.where(np.arange(width)[None, :] < lengths[:, None], table, TEXT_END)
    return torch.from_numpy(table.astype(np.uint8))


def decode_texts(table: Tensor) -> list[str]:
    """Decode the texts of an entry made by :func:`encode_texts`."""
    rows = table.cpu().contiguous().numpy()
    return [row.tobytes().split(b"\xff", 1)[0].decode("utf-8") for row in rows]


def encode_columns(rows: Sequence[Mapping[str, object]]) -> TensorDict:
    """Encode the columns of examples (:class:`rlcomp.interfaces.task.Example`) as JSON texts.

    Returns:
        ``{name: [B, W]}``, uint8, for every name in any row; "null" in rows that lack it or hold
        None.

    Raises:
        DataError: a value cannot be written as JSON, or is too long or too deep
            (:func:`rlcomp.columns.column_text`). The message names row and column.

    Examples:
        >>> columns = encode_columns([{"tests": ["f(1) == 2"]}, {"tests": None, "level": 3}])
        >>> decode_columns(TensorDict({"columns": columns}, batch_size=[2]))
        [{'tests': ['f(1) == 2']}, {'level': 3}]
    """
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    texts = {name: [_json(n, name, row) for n, row in enumerate(rows)] for name in names}
    encoded = {name: encode_texts(column) for name, column in texts.items()}
    return TensorDict(encoded, batch_size=[len(rows)])


def _json(number: int, name: str, row: Mapping[str, object]) -> str:
    value = row.get(name)
    return _NULL if value is None else column_text(f"example {number} of the batch", name, value)


def decode_columns(batch: TensorDict, only: Sequence[str] | None = None) -> list[dict[str, object]]:
    """Decode the ``columns`` of a batch; each row has the columns of its example.

    Args:
        batch: may hold ``columns``.
        only: names of the columns to decode; None for all.
    """
    decoded: list[dict[str, object]] = [{} for _ in range(batch.shape[0])]
    for name, table in batch["columns"].items() if "columns" in batch.keys() else ():
        if only is not None and name not in only:
            continue
        for row, text in zip(decoded, decode_texts(table), strict=True):
            if text != _NULL:
                row[name] = json.loads(text)
    return decoded


def cat(batches: Sequence[TensorDict]) -> TensorDict:
    """Concatenate batches along rows: pad widths, keep group ids distinct.

    :class:`rlcomp.keys.Spec` says how a key is padded and which ids are shifted together.

    Raises:
        ShapeError: the batches do not hold the same keys, or there are none.
    """
    if not batches:
        raise ShapeError("cat needs at least one batch")
    ragged = [key for batch in batches for key in batch.keys() if _absent(key)]
    keys = _common([batch.exclude(*ragged) for batch in batches], "")
    families = {entry.offset for key in keys if (entry := lookup(key)) and entry.offset}
    shifts = {family: _shifts(batches, family) for family in families}
    joined: dict[str, Tensor | TensorDict] = {}
    for key in keys:
        parts, entry = [batch[key] for batch in batches], lookup(key)
        if entry is not None and entry.offset:
            moved = zip(parts, shifts[entry.offset], strict=True)
            parts = [torch.where(part < 0, part, part + shift) for part, shift in moved]
        joined[key] = _join(key, parts)
    joined |= {key: _join_ragged(key, batches) for key in dict.fromkeys(ragged)}
    return TensorDict(joined, batch_size=[sum(batch.shape[0] for batch in batches)])


def _absent(key: str) -> str | float:
    entry = lookup(key)
    return entry.absent if entry is not None else ""


def _join_ragged(key: str, batches: Sequence[TensorDict]) -> TensorDict:
    """Join nested texts or numbers whose parts differ from batch to batch."""
    parts = [batch.get(key, TensorDict({}, batch_size=batch.shape)) for batch in batches]
    names = dict.fromkeys(name for part in parts for name in part.keys())
    device = next(part[name].device for part in parts for name in part.keys()) if names else None
    nothing = [_missing(_absent(key), len(part)).to(device) for part in parts]
    nested = {
        name: _join(f"{key}.{name}", [p.get(name, n) for p, n in zip(parts, nothing, strict=True)])
        for name in names
    }
    return TensorDict(nested, batch_size=[sum(map(len, parts))])


def _missing(absent: str | float, rows: int) -> Tensor:
    return encode_texts([absent] * rows) if isinstance(absent, str) else torch.full((rows,), absent)


def _common(batches: Sequence[TensorDict], path: str) -> list[str]:
    """Return the keys of the batches, which must all hold the same ones."""
    keys = set(batches[0].keys())
    for batch in batches[1:]:
        if set(batch.keys()) != keys:
            lacking = [f"{path}{key}" for key in sorted(keys ^ set(batch.keys()))]
            raise ShapeError(f"cannot join batches: only one has {lacking}")
    return list(batches[0].keys())


def _join(path: str, parts: list[Any]) -> Tensor | TensorDict:
    """Join one entry of several batches; join each part of a nested one."""
    if isinstance(parts[0], TensorDict):
        names = _common(parts, f"{path}.")
        nested = {name: _join(f"{path}.{name}", [part[name] for part in parts]) for name in names}
        return TensorDict(nested, batch_size=[sum(part.shape[0] for part in parts)])
    if parts[0].ndim >= 2:
        width = max(part.shape[1] for part in parts)
        parts = [_widen(part, width, _fill(path, part)) for part in parts]
    return torch.cat(parts)


def _fill(path: str, part: Tensor) -> int:
    """Return the padding: the schema's; bytes of renamed entries and nested parts are texts."""
    entry = lookup(path)
    if entry is not None:
        return entry.fill
    return TEXT_END if part.dtype == torch.uint8 and part.ndim == 2 else 0


def _widen(tensor: Tensor, width: int, fill: int) -> Tensor:
    beyond = (0, 0) * (tensor.ndim - 2)
    return F.pad(tensor, (*beyond, 0, width - tensor.shape[1]), value=fill)


def _shifts(batches: Sequence[TensorDict], family: str) -> list[int]:
    """Compute each batch's offset of a family of ids, so that no two batches share an id."""
    shifts, start = [], 0
    for batch in batches:
        members = [key for key in batch.keys() if (s := lookup(key)) and s.offset == family]
        ids = [one for key in members for one in batch[key].flatten().tolist() if one >= 0]
        low, high = min(ids, default=0), max(ids, default=-1)
        shifts.append(start - low)
        start += high - low + 1
    return shifts


def keep_prompt(rollout: TensorDict, batch: TensorDict, prompt_of_row: Tensor) -> TensorDict:
    """Copy the prompt's entries (``per_prompt``) into the rows that answer it.

    Args:
        rollout: ``[B]`` rows; gets the entries.
        batch: ``[P]`` prompts.
        prompt_of_row: index of each row's prompt, int64, shape ``[B]``, on the device for the
            entries.

    Returns:
        The rollout.

    Examples:
        >>> prompts = TensorDict({"example_id": torch.tensor([7, 9])}, batch_size=[2])
        >>> rows = TensorDict({}, batch_size=[4])
        >>> keep_prompt(rows, prompts, torch.tensor([0, 0, 1, 1]))["example_id"]
        tensor([7, 7, 9, 9])
    """
    entries = batch.select(*(key for key in batch.keys() if key in prompt_keys()))
    return rollout.update(entries.to(prompt_of_row.device)[prompt_of_row])


def trim(batch: TensorDict) -> TensorDict:
    """Trim columns that are padding in every row, also in nested entries."""
    mask = batch["attention_mask"]
    width = int(mask.any(0).nonzero().max()) + 1 if bool(mask.any()) else 1
    cut = {
        key: value[:, :width]
        for key, value in batch.items(include_nested=True, leaves_only=True)
        if _per_token(key if isinstance(key, tuple) else (key,), value, mask)
    }
    return batch.copy().update(cut) if width < mask.shape[1] else batch


def pad_right(batch: TensorDict) -> TensorDict:
    """Move the padding of every row from any position to the end.

    ``generate`` of transformers returns rows that are padded on the left; rlcomp counts positions
    from column 0.

    Args:
        batch: holds ``attention_mask`` ``[B, T]``, of any dtype; every entry along the tokens moves
            with it.

    Returns:
        The batch with the tokens of each row in order, from column 0 on.

    Examples:
        >>> ids, mask = torch.tensor([[0, 5, 6]]), torch.tensor([[0, 1, 1]])
        >>> rows = TensorDict(tokens=ids, attention_mask=mask, batch_size=[1])
        >>> pad_right(rows)["tokens"].tolist()
        [[5, 6, 0]]
    """
    mask = batch["attention_mask"]
    order = (mask == 0).long().argsort(dim=1, stable=True)
    rows = torch.arange(len(mask), device=mask.device)[:, None]
    shifted = {
        key: value[rows, order]
        for key, value in batch.items(include_nested=True, leaves_only=True)
        if _per_token(key if isinstance(key, tuple) else (key,), value, mask)
    }
    return batch.copy().update(shifted)


def _per_token(path: tuple[str, ...], value: Tensor, mask: Tensor) -> bool:
    """Test if an entry runs along the tokens: by the schema; if renamed, by shape and dtype."""
    entry = lookup(path[0]) or lookup(path[-1])
    if entry is not None:
        return entry.along_tokens
    return value.shape[:2] == mask.shape and value.dtype != torch.uint8

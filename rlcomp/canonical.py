"""Canonical entries: conversion of a component's input to the schema's dtypes and shapes.

Every component converts its input first, so that its code can rely on the schema: a mask is bool, a
float has at least 32 bits (in bfloat16 every sequence ratio rounds to 1), an advantage has a value
for each token. An entry that is already canonical costs two comparisons; its values are not read,
except those of the two masks that :func:`check_layout` compares.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.errors import ConfigError, DataError, ShapeError
from rlcomp.keys import Key, Spec, lookup

Entry: TypeAlias = Tensor | TensorDict


def canonical(owner: str, batch: TensorDict, keys: Iterable[Key]) -> TensorDict:
    """Return the batch if its entries are canonical, otherwise a copy with canonical entries.

    The schema decides the dtype: for a mask, integers and floats of 0 and 1 are converted; for a
    float, half floats, integers and masks become float32; for an int64, narrow integers. Half
    floats in nested entries become float32. uint8 entries are returned as they are. ``[B, 1]``
    becomes ``[B]``. An ``advantage`` ``[B]`` or ``[B, 1]`` becomes ``[B, T]`` with the same value
    at every token, if another entry tells ``T``. Gradients flow through.

    Args:
        owner: name of the component, for the message.
        batch: input of the component.
        keys: keys that the component reads; keys without a specification are not converted.

    Raises:
        ConfigError: an entry cannot be converted to the schema's dtype. The message names owner,
            key and dtype.
        ShapeError: an entry has another number of dimensions than the schema says, or another
            ``[B, T]`` than the tokens; or the component reads tokens or their mask, and
            :func:`check_layout` refuses the rows.

    Examples:
        >>> batch = TensorDict({"correct": torch.tensor([1, 0])}, batch_size=[2])
        >>> canonical("Mine", batch, ["correct"])["correct"]
        tensor([ True, False])
    """
    changes: dict[Key, Entry] = {}
    keys = set(keys)
    for key in keys:
        entry, spec = batch.get(key, None), lookup(key)
        if entry is None or spec is None or spec.dtype == "uint8":
            continue
        canonical_entry = _convert_entry(owner, key, entry, spec, batch)
        if canonical_entry is not entry:
            changes[key] = canonical_entry
    batch = batch.copy().update(changes) if changes else batch
    if keys & {"tokens", "attention_mask"}:
        check_layout(owner, batch)
    return batch


def check_layout(owner: str, batch: TensorDict) -> None:
    """Refuse rows with padding on the left, padding between tokens, or responses in the padding.

    Models count positions from column 0 and skip the columns after the last token.

    Args:
        owner: name of the component that reads the rows, for the message.
        batch: may hold ``attention_mask`` and ``response_mask``, ``[B, T]``.

    Raises:
        ShapeError: a row has one of these faults. The message names the owner, the row and the
            column.
    """
    mask, response = (batch.get(key, None) for key in ("attention_mask", "response_mask"))
    if mask is None or mask.dtype != torch.bool or mask.ndim != 2:
        return  # nothing to compare; canonical() converts or refuses a mask that is read
    starts = mask[:, 1:] & ~mask[:, :-1]
    if bool(starts.any()):
        row, column = starts.nonzero()[0].tolist()
        on_left = not bool(mask[row, : column + 1].any())
        raise ShapeError(
            f"{owner}: row {row} of 'attention_mask' "
            f"{'is padded on the left' if on_left else f'has a hole before column {column + 1}'}, "
            "but padding must follow the tokens: use rlcomp.batch.pad_right(batch)"
        )
    if response is not None and response.shape == mask.shape:
        outside = response.bool() & ~mask
        if bool(outside.any()):
            row, column = outside.nonzero()[0].tolist()
            raise ShapeError(
                f"{owner}: 'response_mask' is true at row {row}, column {column}, where "
                "'attention_mask' marks padding: set both to true at response tokens"
            )


def _convert_entry(owner: str, key: Key, entry: Entry, spec: Spec, batch: TensorDict) -> Entry:
    if spec.dtype == "nested" or not isinstance(entry, Tensor):
        return _convert_nested(entry)
    return _convert_shape(owner, key, _convert_dtype(owner, key, entry, spec), spec, batch)


def _convert_nested(entry: Entry) -> Entry:
    if not isinstance(entry, TensorDict):
        return entry
    if not any(part.is_floating_point() and part.dtype.itemsize < 4 for part in entry.values()):
        return entry
    parts = {key: part.float() if part.is_floating_point() else part for key, part in entry.items()}
    return TensorDict(parts, batch_size=entry.batch_size)


def _convert_dtype(owner: str, key: Key, entry: Tensor, spec: Spec) -> Tensor:
    dtype = entry.dtype
    if spec.dtype == "float":
        is_canonical = dtype.is_floating_point and dtype.itemsize >= 4
        return entry if is_canonical else entry.to(torch.float32)
    if spec.dtype == "bool":
        return entry if dtype == torch.bool else _convert_to_mask(owner, key, entry)
    if dtype == torch.int64:
        return entry
    if dtype.is_floating_point or dtype == torch.bool:
        raise ConfigError(
            f"{owner}: '{key}' has dtype {_dtype_name(dtype)}, but must be int64 ({spec.meaning}): "
            f"convert it, e.g. batch['{key}'].long()"
        )
    return entry.to(torch.int64)


def _convert_to_mask(owner: str, key: Key, entry: Tensor) -> Tensor:
    mask = entry == 1
    if not bool((mask | (entry == 0)).all()):
        raise ConfigError(
            f"{owner}: '{key}' has dtype {_dtype_name(entry.dtype)} and holds other values than 0 "
            f"and 1, but must be a mask: convert it to bool, e.g. batch['{key}'] > 0"
        )
    return mask


def _convert_shape(owner: str, key: Key, entry: Tensor, spec: Spec, batch: TensorDict) -> Tensor:
    dimensions = spec.shape.split()
    if key == "advantage" and (entry.ndim == 1 or (entry.ndim == 2 and entry.shape[1] == 1)):
        width = _token_width(batch)
        if width is not None:
            # Expand along the row: if B == T, broadcasting would expand along the batch.
            return entry if entry.shape[1:] == (width,) else entry.view(-1, 1).expand(-1, width)
    if entry.ndim == len(dimensions) and not _has_other_length(entry, spec, batch):
        return entry
    if dimensions == ["B"] and entry.ndim == 2 and entry.shape[1] == 1:
        return entry[:, 0]
    raise ShapeError(
        f"{owner}: '{key}' has shape {list(entry.shape)}, but must be [{', '.join(dimensions)}] "
        f"({spec.meaning})"
    )


def _has_other_length(entry: Tensor, spec: Spec, batch: TensorDict) -> bool:
    """Return True if an entry has another ``[B, T]`` than the tokens, which broadcasting hides."""
    if not spec.along_tokens:
        return False
    for key in ("tokens", "attention_mask", "response_mask"):
        reference = batch.get(key, None)
        if reference is not None and reference.ndim == 2:
            return bool(entry.shape[:2] != reference.shape)
    return False


def check_written(owner: str, batch: TensorDict, keys: Iterable[Key]) -> None:
    """Refuse written entries of tokens that lack the token dimension or have another ``T``.

    A reader would broadcast an entry ``[B]`` along the tokens. Only an ``advantage`` may be
    ``[B]``: each reader expands it along its row.

    Args:
        owner: name of the component that wrote the entries, for the message.
        batch: output of the component.
        keys: keys that the component writes; entries of undeclared keys are not checked.

    Raises:
        ShapeError: an entry has fewer than two dimensions, or another ``[B, T]`` than the tokens.
        DataError: the ``token_reward`` of a response token is not finite.
    """
    if "token_reward" in keys:
        _check_token_reward(owner, batch)
    for key in keys:
        entry, spec = batch.get(key, None), lookup(key)
        if spec is None or not spec.along_tokens or key == "advantage":
            continue
        if not isinstance(entry, Tensor):
            continue
        if entry.ndim < 2 or _has_other_length(entry, spec, batch):
            raise ShapeError(
                f"{owner} writes '{key}' with shape {list(entry.shape)}, but must write "
                f"[{', '.join(spec.shape.split())}] ({spec.meaning}): write a value for each token"
            )


def _check_token_reward(owner: str, batch: TensorDict) -> None:
    """Refuse token rewards that are not finite; the message names the component that wrote them.

    Outside the response, and in rows without a valid reward, every value is allowed.
    """
    reward, mask = batch.get("token_reward", None), batch.get("response_mask", None)
    if reward is None or mask is None or reward.shape != mask.shape:
        return
    bad = mask.bool() & ~reward.isfinite()
    if "reward_valid" in batch.keys():
        bad = bad & batch["reward_valid"].bool()[:, None]
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        raise DataError(
            f"{owner}: 'token_reward' is {reward[row, column].item()} at row {row}, token "
            f"{column}: write 0 for a token that cannot be judged, and reward_valid False for a "
            "response that cannot be judged"
        )


def _token_width(batch: TensorDict) -> int | None:
    """Return ``T`` of the first ``[B, T]`` entry except the advantage; None without any."""
    for key, entry in batch.items():
        spec = lookup(key)
        if spec is not None and spec.per_token and key != "advantage" and entry.ndim == 2:
            return int(entry.shape[1])
    return None


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# Stages that handwritten loops often omit, by the key that the stage writes.
_WRITERS = {
    "advantage": "advantage",
    "old_log_probs": "old_log_probs",
    "ref_log_probs": "reference",
    "reward": "reward",
    "reward_valid": "reward",
    "value": "value",
    "returns": "advantage",
}


def missing_keys_message(reader: str, missing: Sequence[str], present: Iterable[str]) -> str:
    """Return the message that a batch lacks keys which a component reads.

    Args:
        reader: name of the component.
        missing: keys that the component reads and the batch lacks; the message describes them.
        present: keys of the batch.

    Examples:
        >>> missing_keys_message("Mean", ["reward"], ["rewards"])
        "Mean reads 'reward' [B] (float: scalar outcome; stage 'reward' writes it), the batch has \
['rewards']; by 'rewards', did you mean 'reward'?"
    """
    known = sorted(map(str, present))
    descriptions = [_describe_key(key) for key in missing]
    similar = {key: difflib.get_close_matches(key, known, n=1, cutoff=0.9) for key in missing}
    suggestions = [
        f"by {names[0]!r}, did you mean {key!r}?" for key, names in similar.items() if names
    ]
    return "; ".join(
        [f"{reader} reads {' and '.join(descriptions)}, the batch has {known}", *suggestions]
    )


def missing_calls_hint(missing: Sequence[str]) -> str:
    """Return the end of a message that names the calls which write missing keys.

    Args:
        missing: keys that a batch of a handwritten loop lacks.

    Examples:
        >>> missing_calls_hint(["advantage", "my_key"])
        "; call parts['advantage'](rows) before"
    """
    stages = dict.fromkeys(_WRITERS[key] for key in missing if key in _WRITERS)
    calls = " and ".join(f"parts[{stage!r}](rows)" for stage in stages)
    return f"; call {calls} before" if calls else ""


def _describe_key(key: str) -> str:
    spec = lookup(key)
    if spec is None:
        return repr(key)
    stage = _WRITERS.get(key)
    writer = f"; stage {stage!r} writes it" if stage else ""
    shape = ", ".join(spec.shape.split())
    return f"{key!r} [{shape}] ({spec.dtype}: {spec.meaning}{writer})"

"""Canonical entries: the entries that a component reads get the schema's dtype and shape.

The check is in one place, at the entry of every component, so that the code below can rely on it: a
mask is bool, a float has at least 32 bits (in bfloat16 every sequence ratio rounds to 1), an
advantage has a value for each token. An entry that is already canonical costs two comparisons, and
its values are not read.
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

    Integers and floats of 0 and 1 become masks; half floats, integers and masks become float32;
    narrow integers become int64. ``[B, 1]`` becomes ``[B]``. An ``advantage`` ``[B]`` or ``[B, 1]``
    becomes ``[B, T]`` with the same value at every token. Gradients flow through.

    Args:
        owner: the component that reads them, for the message.
        batch: the input of the component.
        keys: the keys that it reads; undeclared names are left alone.

    Raises:
        ConfigError: an entry cannot be converted to the schema's dtype. The message names owner,
            key and dtype.
        ShapeError: an entry has another number of dimensions; or tokens are read, and the rows are
            not padded on the right.

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
        changed = _entry(owner, key, entry, spec, batch)
        if changed is not entry:
            changes[key] = changed
    batch = batch.copy().update(changes) if changes else batch
    if keys & {"tokens", "attention_mask"}:
        check_layout(owner, batch)
    return batch


def check_layout(owner: str, batch: TensorDict) -> None:
    """Refuse rows that are padded on the left, have holes, or respond inside padding.

    Positions are counted from column 0, and columns after the last token are not read.

    Args:
        owner: the component that reads them, for the message.
        batch: may hold ``attention_mask`` and ``response_mask``, ``[B, T]``.

    Raises:
        ShapeError: the message names the owner, the row and the column.
    """
    mask, response = (batch.get(key, None) for key in ("attention_mask", "response_mask"))
    if mask is None or mask.dtype != torch.bool or mask.ndim != 2:
        return  # the component that reads it has refused it
    starts = mask[:, 1:] & ~mask[:, :-1]
    if bool(starts.any()):
        row, column = starts.nonzero()[0].tolist()
        on_left = not bool(mask[row, : column + 1].any())
        raise ShapeError(
            f"{owner}: row {row} of 'attention_mask' "
            f"{'is padded on the left' if on_left else f'has a hole before column {column + 1}'}, "
            "but padding stands on the right, behind the tokens: use rlcomp.batch.pad_right(batch)"
        )
    if response is not None and response.shape == mask.shape:
        outside = response.bool() & ~mask
        if bool(outside.any()):
            row, column = outside.nonzero()[0].tolist()
            raise ShapeError(
                f"{owner}: 'response_mask' is true at row {row}, column {column}, where "
                "'attention_mask' marks padding: set both to true at response tokens"
            )


def _entry(owner: str, key: Key, entry: Entry, spec: Spec, batch: TensorDict) -> Entry:
    if spec.dtype == "nested" or not isinstance(entry, Tensor):
        return _nested(entry)
    return _shaped(owner, key, _typed(owner, key, entry, spec), spec, batch)


def _nested(entry: Entry) -> Entry:
    if not isinstance(entry, TensorDict):
        return entry
    if not any(part.is_floating_point() and part.dtype.itemsize < 4 for part in entry.values()):
        return entry
    parts = {key: part.float() if part.is_floating_point() else part for key, part in entry.items()}
    return TensorDict(parts, batch_size=entry.batch_size)


def _typed(owner: str, key: Key, entry: Tensor, spec: Spec) -> Tensor:
    dtype = entry.dtype
    if spec.dtype == "float":
        wide = dtype.is_floating_point and dtype.itemsize >= 4
        return entry if wide else entry.to(torch.float32)
    if spec.dtype == "bool":
        return entry if dtype == torch.bool else _mask(owner, key, entry)
    if dtype == torch.int64:
        return entry
    if dtype.is_floating_point or dtype == torch.bool:
        raise ConfigError(
            f"{owner}: '{key}' has dtype {_name(dtype)}, but it is int64 ({spec.meaning}): write "
            f"it as such, e.g. batch['{key}'].long()"
        )
    return entry.to(torch.int64)


def _mask(owner: str, key: Key, entry: Tensor) -> Tensor:
    mask = entry == 1
    if not bool((mask | (entry == 0)).all()):
        raise ConfigError(
            f"{owner}: '{key}' has dtype {_name(entry.dtype)} and holds other values than 0 and "
            f"1, but it is a mask: write it as bool, e.g. batch['{key}'] > 0"
        )
    return mask


def _shaped(owner: str, key: Key, entry: Tensor, spec: Spec, batch: TensorDict) -> Tensor:
    wanted = spec.shape.split()
    if key == "advantage" and (entry.ndim == 1 or (entry.ndim == 2 and entry.shape[1] == 1)):
        width = _width(batch)
        if width is not None:
            # Along the row even if B == T, which broadcasting alone would misread.
            return entry if entry.shape[1:] == (width,) else entry.view(-1, 1).expand(-1, width)
    if entry.ndim == len(wanted) and not _too_narrow(entry, spec, batch):
        return entry
    if wanted == ["B"] and entry.ndim == 2 and entry.shape[1] == 1:
        return entry[:, 0]
    raise ShapeError(
        f"{owner}: '{key}' has shape {list(entry.shape)}, but it is [{', '.join(wanted)}] "
        f"({spec.meaning})"
    )


def _too_narrow(entry: Tensor, spec: Spec, batch: TensorDict) -> bool:
    """Test if an entry has another ``T`` than the tokens; broadcasting would hide this."""
    if not spec.along_tokens:
        return False
    for key in ("tokens", "attention_mask", "response_mask"):
        known = batch.get(key, None)
        if known is not None and known.ndim == 2:
            return bool(entry.shape[:2] != known.shape)
    return False


def check_written(owner: str, batch: TensorDict, keys: Iterable[Key]) -> None:
    """Refuse written entries with too few dimensions: ``[B]`` would be read along tokens.

    An ``advantage`` ``[B]`` is allowed: each reader expands it.

    Args:
        owner: the component that wrote it, for the message.
        batch: the output of the component.
        keys: the keys that it writes; undeclared names are left alone.

    Raises:
        ShapeError: an entry has fewer dimensions than the schema says, or another ``T``.
        DataError: a reward of a response's token is not finite.
    """
    if "token_reward" in keys:
        _check_token_reward(owner, batch)
    for key in keys:
        entry, spec = batch.get(key, None), lookup(key)
        if spec is None or not spec.along_tokens or key == "advantage":
            continue
        if not isinstance(entry, Tensor):
            continue
        if entry.ndim < 2 or _too_narrow(entry, spec, batch):
            raise ShapeError(
                f"{owner} writes '{key}' with shape {list(entry.shape)}, but it is "
                f"[{', '.join(spec.shape.split())}] ({spec.meaning}): write a value for each token"
            )


def _check_token_reward(owner: str, batch: TensorDict) -> None:
    """Refuse NaN in token rewards here, since the learner cannot tell which part wrote it.

    Outside the response and in rows without a valid reward any value is allowed.
    """
    reward, mask = batch.get("token_reward", None), batch.get("response_mask", None)
    if reward is None or mask is None or reward.shape != mask.shape:
        return
    bad = mask.bool() & ~reward.isfinite()
    if "reward_valid" in batch.keys():
        bad = bad & batch["reward_valid"].bool()[:, None]
    if bool(bad.any()):
        row, place = bad.nonzero()[0].tolist()
        raise DataError(
            f"{owner}: 'token_reward' is {reward[row, place].item()} at row {row}, token {place}: "
            "a token that cannot be judged has reward 0, a response that cannot has reward_valid "
            "False"
        )


def _width(batch: TensorDict) -> int | None:
    """Return ``T`` of the other entries of the batch."""
    for key, entry in batch.items():
        spec = lookup(key)
        if spec is not None and spec.per_token and key != "advantage" and entry.ndim == 2:
            return int(entry.shape[1])
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# The part that writes each key which a handwritten loop tends to forget.
_WRITERS = {
    "advantage": "advantage",
    "old_log_probs": "old_log_probs",
    "ref_log_probs": "reference",
    "reward": "reward",
    "reward_valid": "reward",
    "value": "value",
    "returns": "advantage",
}


def lacking(reader: str, missing: Sequence[str], there: Iterable[str]) -> str:
    """Write the message that a batch lacks keys which a part reads; describe each key.

    Args:
        reader: name of the part.
        missing: keys that it reads and the batch lacks.
        there: the keys of the batch.

    Examples:
        >>> lacking("Mean", ["reward"], ["rewards"])
        "Mean reads 'reward' [B] (float: scalar outcome; stage 'reward' writes it), the batch has \
['rewards']; by 'rewards', did you mean 'reward'?"
    """
    known = sorted(map(str, there))
    descriptions = [_described(key) for key in missing]
    close = {key: difflib.get_close_matches(key, known, n=1, cutoff=0.9) for key in missing}
    suggestions = [
        f"by {names[0]!r}, did you mean {key!r}?" for key, names in close.items() if names
    ]
    return "; ".join(
        [f"{reader} reads {' and '.join(descriptions)}, the batch has {known}", *suggestions]
    )


def written_by_hand(missing: Sequence[str]) -> str:
    """Name the calls that write missing keys in a handwritten loop, as the end of a message.

    Examples:
        >>> written_by_hand(["advantage", "my_key"])
        "; call parts['advantage'](rows) before"
    """
    stages = dict.fromkeys(_WRITERS[key] for key in missing if key in _WRITERS)
    calls = " and ".join(f"parts[{stage!r}](rows)" for stage in stages)
    return f"; call {calls} before" if calls else ""


def _described(key: str) -> str:
    spec = lookup(key)
    if spec is None:
        return repr(key)
    stage = _WRITERS.get(key)
    written = f"; stage {stage!r} writes it" if stage else ""
    shape = ", ".join(spec.shape.split())
    return f"{key!r} [{shape}] ({spec.dtype}: {spec.meaning}{written})"

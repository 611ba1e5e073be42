"""Search for non-finite values in a batch."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.keys import SCHEMA, Spec, lookup

_ORDER = {key: index for index, key in enumerate(SCHEMA)}


def first_non_finite(batch: TensorDict) -> str | None:
    """Describe the first entry of a batch with NaN or infinity; return None if there is none.

    Entries are searched in the order of :data:`rlcomp.keys.SCHEMA`, then by name. Only response
    tokens of rows with a valid reward are checked. Some values are allowed: NaN in
    ``rollout_log_probs`` ("not recorded"), any value in nested entries such as ``rewards`` (NaN:
    "missing"), and ``-inf`` in full distributions.

    Examples:
        >>> batch = TensorDict({"reward": torch.tensor([1.0, torch.nan])}, batch_size=[2])
        >>> first_non_finite(batch)
        "'reward' is nan at [1] (1 of 2 values)"
    """
    leaves = {
        ".".join(key) if isinstance(key, tuple) else key: entry
        for key, entry in batch.items(include_nested=True, leaves_only=True)
        if isinstance(entry, Tensor) and entry.is_floating_point()
    }
    for name in sorted(leaves, key=lambda key: (_ORDER.get(key, len(_ORDER)), key)):
        spec = lookup(name.partition(".")[0])
        if spec is not None and spec.dtype == "nested":
            continue
        checked = _checked_values(leaves[name], batch)
        invalid = _invalid_values(name, leaves[name], spec) & checked
        if bool(invalid.any()):
            index = invalid.nonzero()[0].tolist()
            value = float(leaves[name][tuple(index)])
            counts = f"{int(invalid.sum())} of {int(checked.sum())} values"
            return f"'{name}' is {value} at {index} ({counts})"
    return None


def _invalid_values(name: str, entry: Tensor, spec: Spec | None) -> Tensor:
    if name == "rollout_log_probs":
        return entry.isinf()
    if spec is not None and spec.shape == "B T V":
        return entry.isnan() | (entry == torch.inf)
    return ~entry.isfinite()


def _checked_values(entry: Tensor, batch: TensorDict) -> Tensor:
    """Return the mask of an entry's values in response tokens of rows with a valid reward."""
    mask, valid = batch.get("response_mask", None), batch.get("reward_valid", None)
    checked = torch.ones_like(entry, dtype=torch.bool)
    if valid is not None and entry.ndim:
        checked = checked & valid.bool().reshape(-1, *[1] * (entry.ndim - 1))
    if mask is not None and entry.shape[:2] == mask.shape:
        checked = checked & mask.bool().reshape(*mask.shape, *[1] * (entry.ndim - 2))
    return checked

"""Search for numbers of a batch that are not finite."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from rlcomp.keys import SCHEMA, Spec, lookup

_ORDER = {key: place for place, key in enumerate(SCHEMA)}


def first_non_finite(batch: TensorDict) -> str | None:
    """Describe the first entry of a batch with NaN or infinity among the values that are read.

    Entries are searched in the order of :data:`rlcomp.keys.SCHEMA`, then by name. Only response
    tokens of rows with a valid reward are read. NaN in ``rollout_log_probs`` means "not recorded",
    NaN in the parts of ``rewards`` means "missing". A log-probability of a whole distribution may
    be ``-inf``.

    Args:
        batch: ``[B]`` rows, of any keys.

    Returns:
        The description; None if all numbers are finite.

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
        read = _read(leaves[name], batch)
        bad = _bad(name, leaves[name], spec) & read
        if bool(bad.any()):
            place = bad.nonzero()[0].tolist()
            value = float(leaves[name][tuple(place)])
            return f"'{name}' is {value} at {place} ({int(bad.sum())} of {int(read.sum())} values)"
    return None


def _bad(name: str, entry: Tensor, spec: Spec | None) -> Tensor:
    if name == "rollout_log_probs":
        return entry.isinf()
    if spec is not None and spec.shape == "B T V":
        return entry.isnan() | (entry == torch.inf)
    return ~entry.isfinite()


def _read(entry: Tensor, batch: TensorDict) -> Tensor:
    """Return which values of an entry are read, in its shape."""
    mask, valid = batch.get("response_mask", None), batch.get("reward_valid", None)
    read = torch.ones_like(entry, dtype=torch.bool)
    if valid is not None and entry.ndim:
        read = read & valid.bool().reshape(-1, *[1] * (entry.ndim - 1))
    if mask is not None and entry.shape[:2] == mask.shape:
        read = read & mask.bool().reshape(*mask.shape, *[1] * (entry.ndim - 2))
    return read

"""Transitions from a file: JSON Lines, safetensors, or a Minari folder.

A row is a step: ``observation``, ``action``, ``reward``, ``next_observation``, ``terminated``, and
optionally ``truncated``. Files are untrusted: every entry is checked, and no code in them is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tensordict import TensorDict
from torch import Tensor

from rlcomp.data.minari import minari_rows
from rlcomp.data.records import Row, read_rows
from rlcomp.errors import DataError, nearest

_VECTORS = ("observation", "action", "next_observation")
_FLAGS = ("terminated", "truncated")
_NEEDED = (*_VECTORS, "reward", "terminated")
_KNOWN = (*_NEEDED, "truncated")
_MOST_BYTES = 8 << 30  # of a file, held in memory at once


def read_transitions(path: str) -> TensorDict:
    """Read steps from a file.

    Args:
        path: ``.jsonl`` or ``.jsonl.gz`` (a step a line), ``.parquet``, ``.safetensors`` (a tensor
            for each entry, a step a row), or the folder of a Minari data set in Arrow format.

    Returns:
        ``[R]`` steps under torchrl's names: ``observation``, ``action``, and under ``next``
        ``observation``, ``[R, numbers]`` each, float32; ``next`` also has ``reward``, float32, and
        ``done``, ``terminated``, ``truncated``, bool, ``[R, 1]`` each. A terminated step is not
        truncated.

    Raises:
        DataError: there is no such file, an entry is missing, unknown or malformed, sizes differ,
            or a number is not finite; the message names file and line.
        MissingExtra: the file is of Minari or Parquet, and pyarrow is not installed.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        return _to_torchrl(_stack_rows(minari_rows(place)))
    if place.suffix == ".safetensors":
        return _to_torchrl(_read_safetensors(place))
    return _to_torchrl(_stack_rows(read_rows(path)))


def write_transitions(path: Path, rows: TensorDict) -> None:
    """Save steps as safetensors, for :func:`read_transitions`.

    Args:
        path: ends in ``.safetensors``.
        rows: ``[R]`` steps under torchrl's names, as a replay holds them.
    """
    after = rows["next"]
    columns = {
        "observation": rows["observation"],
        "action": rows["action"],
        "reward": after["reward"].flatten(),
        "next_observation": after["observation"],
        "terminated": after["terminated"].flatten(),
        "truncated": (after["done"] & ~after["terminated"]).flatten(),
    }
    save_file({key: value.contiguous() for key, value in columns.items()}, path)


def _to_torchrl(flat: Mapping[str, Tensor]) -> TensorDict:
    """Return steps under torchrl's names; a terminated step is not truncated."""
    rows = len(flat["reward"])
    terminated = flat["terminated"].view(rows, 1)
    truncated = flat["truncated"].view(rows, 1) & ~terminated
    after = {
        "observation": flat["next_observation"],
        "reward": flat["reward"].view(rows, 1),
        "terminated": terminated,
        "truncated": truncated,
        "done": terminated | truncated,
    }
    return TensorDict(
        {"observation": flat["observation"], "action": flat["action"], "next": after},
        batch_size=[rows],
    )


def _check_names(place: str, names: Iterable[str]) -> None:
    """Refuse unknown and missing entries."""
    present = list(names)
    for name in present:
        if name not in _KNOWN:
            raise DataError(
                f"{place}: '{name}' is no entry of a step ({', '.join(_KNOWN)})"
                f"{nearest(name, _KNOWN)}"
            )
    for name in _NEEDED:
        if name not in present:
            raise DataError(
                f"{place}: the step has no '{name}' ({', '.join(sorted(present))}): it needs "
                f"{', '.join(_NEEDED)}"
            )


def _stack_rows(rows: Iterable[Row]) -> dict[str, Tensor]:
    """Stack rows into one tensor for each entry."""
    columns: dict[str, list[Any]] = {name: [] for name in _KNOWN}
    sizes: dict[str, tuple[str, int]] = {}
    for row in rows:
        _check_names(row.place, row.columns)
        step = {"truncated": False, **row.columns}
        for name in _VECTORS:
            columns[name].append(_vector(row.place, name, step[name], sizes))
        columns["reward"].append(_number(row.place, "reward", step["reward"]))
        for name in _FLAGS:
            columns[name].append(_flag(row.place, name, step[name]))
    place, before = sizes["observation"]
    _check_sizes(place, before, sizes["next_observation"][1])
    return {
        name: torch.tensor(values, dtype=torch.bool if name in _FLAGS else torch.float32)
        for name, values in columns.items()
    }


def _vector(place: str, name: str, value: object, sizes: dict[str, tuple[str, int]]) -> list[float]:
    if not isinstance(value, list) or not value:
        raise DataError(f"{place}: '{name}' is {_abbreviate(value)}: must be a list of numbers")
    first, size = sizes.setdefault(name, (place, len(value)))
    if len(value) != size:
        raise DataError(
            f"{place}: '{name}' has {len(value)} numbers, but {size} at {first}: all steps must "
            "have the same number"
        )
    return [_number(place, name, number) for number in value]


def _check_sizes(place: str, before: int, after: int) -> None:
    """Refuse observations of different sizes before and after a step."""
    if before != after:
        raise DataError(
            f"{place}: 'observation' has {before} numbers, 'next_observation' {after}: must be "
            "equal"
        )


def _number(place: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataError(f"{place}: '{name}' holds {_abbreviate(value)}: must be a number")
    # A larger number is infinite in float32; NaN fails the comparison.
    if not abs(value) <= torch.finfo(torch.float32).max:
        raise DataError(f"{place}: '{name}' holds {_abbreviate(value)}: must be finite, in float32")
    return float(value)


def _flag(place: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"{place}: '{name}' is {_abbreviate(value)}: must be true or false")
    return value


def _abbreviate(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."


def _read_safetensors(place: Path) -> dict[str, Tensor]:
    """Return the checked entries of a file of tensors, ``[R, numbers]`` or ``[R]`` each."""
    if not place.is_file():
        raise DataError(f"there is no file '{place}': set another path")
    if (size := place.stat().st_size) > _MOST_BYTES:
        raise DataError(
            f"{place} has {size >> 20} MiB, more than {_MOST_BYTES >> 20} MiB: take a part of it"
        )
    try:
        with safe_open(place, framework="pt") as file:
            _check_names(str(place), file.keys())
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise DataError(f"{place} is not a file of tensors: {error}") from error
    rows = len(tensors["reward"]) if tensors["reward"].dim() else 0
    if not rows:
        raise DataError(f"{place}: it has no steps")
    tensors.setdefault("truncated", torch.zeros(rows, dtype=torch.bool))
    columns = {name: _column(place, name, value, rows) for name, value in tensors.items()}
    _check_sizes(str(place), *(columns[n].shape[1] for n in ("observation", "next_observation")))
    return columns


def _column(place: Path, name: str, value: Tensor, rows: int) -> Tensor:
    """Return one entry of all steps; refuse a wrong shape or dtype, and infinite numbers or NaN.

    A vector has shape ``[R, numbers]``, any other entry ``[R]`` or ``[R, 1]``.
    """
    shape = [rows, value.shape[-1]] if name in _VECTORS and value.dim() == 2 else [rows]
    fits = list(value.shape) in (shape, [rows, 1]) and (name not in _VECTORS or value.dim() == 2)
    if not fits or 0 in value.shape:
        wanted = f"[{rows}, numbers]" if name in _VECTORS else f"[{rows}]"
        raise DataError(f"{place}: '{name}' has shape {list(value.shape)}: must be {wanted}")
    if name in _FLAGS:
        if value.dtype != torch.bool:
            raise DataError(f"{place}: '{name}' is {value.dtype}: must be bool")
        return value.view(torch.uint8) != 0  # bytes of a file may be other than 0 and 1
    if not value.is_floating_point():
        raise DataError(f"{place}: '{name}' is {value.dtype}: must be of floats")
    values = value.float()
    invalid_steps = (~values.isfinite()).view(rows, -1).any(1)
    if bool(invalid_steps.any()):
        raise DataError(
            f"{place}: '{name}' of step {int(invalid_steps.nonzero()[0, 0])} (from 0) is not finite"
        )
    return values

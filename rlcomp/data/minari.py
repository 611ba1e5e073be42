"""Minari data sets in their Arrow format, read without Minari.

A folder holds ``data/metadata.json`` and, for each episode, ``data/NUMBER/*.arrow`` with the
columns ``observations``, ``actions``, ``rewards``, ``terminations`` and ``truncations``. There is
one more observation than steps; the other columns are padded.

Source:
    Farama-Foundation/Minari, minari/dataset/_storages/arrow_storage.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlcomp.data.records import Row
from rlcomp.errors import DataError, require

_COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")
_LARGEST_METADATA = 1 << 20  # in bytes


def minari_rows(folder: Path) -> Iterator[Row]:
    """Yield every step of every episode, in the order of their numbers.

    Args:
        folder: the data set's folder, or its subfolder ``data``.

    Raises:
        DataError: the folder holds no data set, one of another format, or a malformed episode;
            the message names the file or folder.
        MissingExtra: pyarrow is not installed.
    """
    data = folder / "data" if (folder / "data").is_dir() else folder
    _check_format(data)
    folders = (path for path in data.iterdir() if path.name.isdecimal())
    episodes = sorted(folders, key=lambda path: int(path.name))
    if not episodes:
        raise DataError(f"{data} has no episodes (folders 0, 1, ...)")
    for episode in episodes:
        files = sorted(episode.glob("*.arrow"))
        if len(files) != 1:
            raise DataError(f"{episode} has {len(files)} .arrow files: must be one")
        yield from _steps(files[0])


def _check_format(data: Path) -> None:
    file = data / "metadata.json"
    if not file.is_file() or file.stat().st_size > _LARGEST_METADATA:
        raise DataError(
            f"{data} has no metadata.json of a Minari data set: give its folder, or a file "
            "(.jsonl, .safetensors)"
        )
    try:
        metadata = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not JSON: {error}") from error
    kind = metadata.get("data_format") if isinstance(metadata, dict) else None
    if kind != "arrow":
        raise DataError(
            f"{file}: data_format is {kind!r}, and only 'arrow' can be read: save the data set "
            "with data_format='arrow' of Minari, or its steps as .jsonl or .safetensors"
        )


def _steps(file: Path) -> Iterator[Row]:
    pyarrow = require("pyarrow", "data")
    from pyarrow import ipc

    try:
        with pyarrow.memory_map(str(file)) as source:
            table = ipc.open_file(source).read_all()
            # Refuse offsets that point outside the file.
            table.validate(full=True)
        columns = {name: table.column(name).to_pylist() for name in _COLUMNS}
    # ValueError, OverflowError: bad UTF-8, or times that Python cannot hold.
    except (pyarrow.ArrowException, KeyError, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{file} is no episode of a Minari data set: {error}") from error
    steps = len(columns["observations"]) - 1
    if steps < 1:
        raise DataError(f"{file} has {steps + 1} observations: an episode has at least two")
    for number in range(steps):
        yield Row(f"{file}, step {number}", _step_columns(columns, number))


def _step_columns(columns: dict[str, list[Any]], number: int) -> dict[str, object]:
    observations, action = columns["observations"], columns["actions"][number]
    return {
        "observation": observations[number],
        "action": action,
        "reward": columns["rewards"][number],
        "next_observation": observations[number + 1],
        "terminated": columns["terminations"][number],
        "truncated": columns["truncations"][number],
    }

"""Minari data sets in their Arrow format, read without Minari.

A folder holds ``data/metadata.json`` and, for each episode, ``data/NUMBER/*.arrow`` with the
columns ``observations``, ``actions``, ``rewards``, ``terminations`` and ``truncations``: one more
observation than steps, the other columns padded.

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
_LARGEST_METADATA = 1 << 20


def minari_rows(folder: Path) -> Iterator[Row]:
    """Every step of every episode, in the order of their numbers.

    Args:
        folder: the data set's, or its ``data``.

    Raises:
        DataError: it is no such folder, of another format, or an episode is malformed; names the
            file and, of a step, its number.
        MissingExtra: pyarrow is not installed.
    """
    data = folder / "data" if (folder / "data").is_dir() else folder
    _check_format(data)
    episodes = sorted((each for each in data.iterdir() if each.name.isdecimal()), key=_number)
    if not episodes:
        raise DataError(f"{data} has no episodes (folders 0, 1, ...)")
    for episode in episodes:
        files = sorted(episode.glob("*.arrow"))
        if len(files) != 1:
            raise DataError(f"{episode} has {len(files)} files .arrow: an episode is one")
        yield from _steps(files[0])


def _number(episode: Path) -> int:
    return int(episode.name)


def _check_format(data: Path) -> None:
    file = data / "metadata.json"
    if not file.is_file() or file.stat().st_size > _LARGEST_METADATA:
        raise DataError(
            f"{data} has no metadata.json of a Minari data set: give its folder, or a file "
            "(.jsonl, .safetensors)"
        )
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is no JSON: {error}") from error
    kind = told.get("data_format") if isinstance(told, dict) else None
    if kind != "arrow":
        raise DataError(
            f"{file} says data_format {kind!r}, only 'arrow' can be read: save the data set so "
            "(data_format='arrow' of Minari), or its steps as .jsonl or .safetensors"
        )


def _steps(file: Path) -> Iterator[Row]:
    pyarrow = require("pyarrow", "parquet")
    from pyarrow import ipc

    try:
        with pyarrow.memory_map(str(file)) as source:
            table = ipc.open_file(source).read_all()
            # Else offsets that lead out of the file would be followed.
            table.validate(full=True)
        columns = {name: table.column(name).to_pylist() for name in _COLUMNS}
    # Texts that are not UTF-8, times that Python cannot hold: it may claim anything.
    except (pyarrow.ArrowException, KeyError, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{file} is no episode of a Minari data set: {error}") from error
    steps = len(columns["observations"]) - 1
    if steps < 1:
        raise DataError(f"{file} has {steps + 1} observations: an episode has at least two")
    for number in range(steps):
        yield Row(f"{file}, step {number}", _row(columns, number))


def _row(columns: dict[str, list[Any]], number: int) -> dict[str, object]:
    seen, action = columns["observations"], columns["actions"][number]
    return {
        "observation": seen[number],
        "action": action,
        "reward": columns["rewards"][number],
        "next_observation": seen[number + 1],
        "terminated": columns["terminations"][number],
        "truncated": columns["truncations"][number],
    }

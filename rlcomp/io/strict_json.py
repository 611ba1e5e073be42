"""Strict JSON: a file of ours, read as if a stranger had written it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlcomp.errors import CheckpointError

# What a run keeps beside its tensors has some kilobytes.
LARGEST = 1 << 28


def strict_json(file: Path) -> Any:  # noqa: ANN401
    """The value in a JSON file.

    Raises:
        CheckpointError: the file is no JSON, larger than 256 MiB or too deep, or an object has a
            name twice.
    """
    try:
        return parse_json(bounded(file, LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not what was written: {error}") from error


def bounded(file: Path, largest: int) -> bytes:
    """The bytes of a file that may be anything, a link to ``/dev/zero`` too.

    Raises:
        ValueError: it is no file, or larger.
    """
    if file.exists() and not file.is_file():
        raise ValueError("it is no file")
    with file.open("rb") as opened:
        found = opened.read(largest + 1)
    if len(found) > largest:
        raise ValueError(f"it is larger than {largest:,} bytes")
    return found


def parse_json(text: bytes, constant: Callable[[str], float] = float) -> Any:  # noqa: ANN401
    """The value in a JSON text.

    Args:
        text: the text.
        constant: what ``NaN``, ``Infinity`` and ``-Infinity`` are, which Python's JSON knows.

    Raises:
        ValueError: it is none, or an object has a name twice.
    """
    return json.loads(text.decode("utf-8"), object_pairs_hook=_object, parse_constant=constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"it has {twice!r:.60} twice")
    return made

"""Readers and writer of JSON-lines files."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from rlcomp.errors import DataError


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON-lines file; empty without a file.

    A last line that is not JSON is left out: a run may be writing it, or was killed while it wrote.

    Raises:
        DataError: an earlier line is not JSON, or a line is no object.
    """
    if not path.is_file():
        return []
    lines = path.read_bytes().splitlines()
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            raise DataError(f"{path}, line {number}: {error}; take the line out") from error
        if not isinstance(row, dict):
            text = line[:60].decode("utf-8", "replace")
            raise DataError(
                f"{path}, line {number}: {text} is no object ({{...}}); take the line out"
            )
        rows.append(row)
    return rows


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a ``metrics.jsonl``, one per step; None where a metric was not finite.

    A row without ``phase`` (not written by a run) gets an empty one.

    Raises:
        DataError: as in :func:`read_lines`; or ``total`` is no count (:func:`is_count`), ``phase``
            no text, or a metric neither a finite number nor null.
    """
    rows = read_lines(path)
    for number, row in enumerate(rows, 1):
        wrong = [] if is_count(row.get("total")) else ["total"]
        wrong += [] if isinstance(row.setdefault("phase", ""), str) else ["phase"]
        wrong += [
            name
            for name, value in row.items()
            if name not in ("total", "phase") and value is not None and not is_number(value)
        ]
        if wrong:
            fault = f"{wrong[0]!r:.60} is {_short(row.get(wrong[0]))} in it"
            raise DataError(f"{path}, line {number}: {fault}; take the line out")
    return rows


def last_line(file: Path, size: int) -> dict[str, Any] | None:
    """Return the object in the line that ends at byte ``size`` > 0.

    None if no line ends there, or if the line is no object.
    """
    with file.open("rb") as stream:
        for length in (1 << 16, 1 << 24, size):  # most lines are short
            stream.seek(max(size - length, 0))
            block = stream.read(min(length, size))
            _, newline, line = block[:-1].rpartition(b"\n")
            if newline:
                break
    try:
        row = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and block.endswith(b"\n") else None


def is_number(value: object) -> bool:
    """Return whether a value is a finite number that a float can hold."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer from 1 to ``2^53 - 1``."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53


def _short(value: object) -> str:
    return f"{value!r:.60}" if is_number(value) or not isinstance(value, int) else "a huge number"


def json_line(values: Mapping[str, object]) -> str:
    r"""Return one line of a JSON-lines file; NaN and infinities become null.

    Examples:
        >>> json_line({"reward": float("nan"), "parts": [1.0, float("inf")]})
        '{"reward": null, "parts": [1.0, null]}\n'
    """
    return json.dumps(finite(values)) + "\n"


def finite(value: object) -> object:
    """Replace each NaN and infinity in a nested value by None."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

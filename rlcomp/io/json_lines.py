"""JSON-lines files: reader, and lines that any JSON reader takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlcomp.errors import DataError


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; none if it is not there.

    The last line may be cut off: the run may be writing it, or have been killed over it.

    Raises:
        DataError: another line is no JSON, or a line is no object.
    """
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise DataError(f"{path}, line {number}: {error}; take the line out") from error
            continue
        if not isinstance(found[-1], dict):
            told = f"{line[:60]} is no object ({{...}})"
            raise DataError(f"{path}, line {number}: {told}; take the line out")
    return found


def json_line(values: Mapping[str, object]) -> str:
    r"""One line of a JSON-lines file; NaN and infinities, which JSON lacks, become null.

    Examples:
        >>> json_line({"reward": float("nan"), "parts": [1.0, float("inf")]})
        '{"reward": null, "parts": [1.0, null]}\n'
    """
    return json.dumps(finite(values)) + "\n"


def finite(value: object) -> object:
    """A value with None for each NaN and infinity in it, however deep."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""Reader of JSON-lines files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlcomp.errors import DataError


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; none if it is not there.

    The last line may be cut off: the run may be writing it, or have been killed over it.

    Raises:
        DataError: another line is no JSON.
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
    return found

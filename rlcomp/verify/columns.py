"""The columns of an example that a verifier cannot do without."""

from __future__ import annotations

from collections.abc import Mapping

from rlcomp.errors import DataError, nearest


def column(row: Mapping[str, object], name: str, asked_by: str) -> object:
    """A column of a row.

    Args:
        row: texts and columns by name.
        name: of the column.
        asked_by: such as ``reward=ifeval``, for messages.

    Raises:
        DataError: the row has no such column.
    """
    if name not in row:
        raise DataError(
            f"{asked_by} needs the column {name!r}, which this example does not have"
            f"{nearest(name, row)}: every column of a task's rows is one, so add it there"
        )
    return row[name]

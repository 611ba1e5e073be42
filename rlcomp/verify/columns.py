"""Columns of an example that a verifier needs."""

from __future__ import annotations

from collections.abc import Mapping

from rlcomp.errors import DataError, nearest


def column(row: Mapping[str, object], name: str, asked_by: str) -> object:
    """Return a column of a row.

    Args:
        row: texts and columns by name.
        name: name of the column.
        asked_by: the part that needs it, such as ``reward=ifeval``, for messages.

    Raises:
        DataError: the row has no such column.
    """
    if name not in row:
        raise DataError(
            f"{asked_by} needs the column {name!r}, which this example does not have"
            f"{nearest(name, row)}: every column of a task's rows is one, so add it there"
        )
    return row[name]


def gold_answers(row: Mapping[str, object]) -> list[str]:
    """Return the answer of a row and the answers in its column ``answers``, without blank ones.

    Raises:
        DataError: the column is no list of texts.

    Examples:
        >>> gold_answers({"answer": "UK", "answers": ["Britain", " "]})
        ['UK', 'Britain']
    """
    others = row.get("answers", [])
    if not isinstance(others, list) or not all(isinstance(text, str) for text in others):
        raise DataError(f"the column 'answers' is {others!r:.80}: must be a list of texts")
    return [text for text in (str(row["answer"]), *others) if text.strip()]

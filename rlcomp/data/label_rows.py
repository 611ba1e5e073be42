"""Texts with several labels; some may be unknown.

No torch here, so that a bad file is found before anything heavy is imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlcomp.data.records import Row
from rlcomp.errors import DataError
from rlcomp.interfaces.task import Example

COLUMN = "labels"


def labelled_example(
    row: Row, text_field: str, labels: Sequence[str], longest: int | None
) -> Example | None:
    """Return a row as an example: its text, and the column ``labels``, a number or None for each.

    Args:
        row: a row of the file.
        text_field: column of the text.
        labels: columns of the labels: 0, 1, true, false, a probability, or null where unknown.
        longest: how many first characters of the text to keep; None: all.

    Returns:
        None if no label is known.

    Raises:
        DataError: there is no text, or a label has another value; names file and line.
    """
    text = row.columns.get(text_field)
    if not isinstance(text, str) or not text.strip():
        raise DataError(
            f"{row.place}: column {text_field!r} is {text!r:.60}: must be a text that is not empty"
        )
    values = {name: _label(row, name) for name in labels}
    if all(value is None for value in values.values()):
        return None
    return Example(text[:longest], "", "", columns={COLUMN: values})


def _label(row: Row, name: str) -> float | None:
    value = row.columns.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DataError(
            f"{row.place}: label {name!r} is {value!r:.60}: must be 0, 1 or a probability, null "
            "where unknown"
        )
    return float(value)

"""Columns of examples: JSON of limited size and depth.

This module does not import torch: a faulty file is reported before any heavy import.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from rlcomp.errors import DataError

# Largest size of a value in bytes. In a batch every row of a column has the width of the longest
# value: one value of 1 MiB needs 1 GiB in 1,024 rows.
MAX_BYTES = 2**20
# Largest depth of nested containers; JSON readers fail at about 900.
MAX_DEPTH = 64
# Column with the conversation of an example: its "messages" up to the response, and if known the
# "completion" (the messages to imitate) and "tools".
CONVERSATION = "conversation"
# Column with true if the answer of the example is desirable, and false if it is undesirable.
DESIRABLE = "desirable"


def column_text(place: str, name: object, value: object) -> str:
    """Return a value of a column as JSON.

    Args:
        place: location of the value, for messages: ``file:line``.
        name: name of the column.
        value: a text, a finite number, true, false, null, or lists and mappings of these, at most
            64 deep; as JSON at most 1 MiB long.

    Raises:
        DataError: the value is of another type, too deep or too long. The message names place and
            column.

    Examples:
        >>> column_text("a.jsonl:1", "tests", ["f(1) == 2", None])
        '["f(1) == 2", null]'
    """
    _check_name(place, name)
    check_depth(place, name, value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{place}: column {name!r} is {_short_repr(value)}, which is not JSON: {error}; use "
            "texts, finite numbers, lists and mappings, and null for a missing value"
        ) from error
    check_length(place, name, text)
    return text


def _short_repr(value: object) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # an integer of thousands of digits
        return f"of type {type(value).__name__}"


def _check_name(place: str, name: object) -> None:
    if not isinstance(name, str):
        raise DataError(f"{place}: the name of column {name!r:.60} is not a text: rename it")
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError(
            f"{place}: the name of column {name!r:.60} holds a lone surrogate: rename it"
        )


def check_depth(place: str, name: object, value: object) -> None:
    """Refuse containers that are nested more than 64 deep, contain themselves, or are too large.

    Args:
        place: location of the value, for messages: ``file:line``.
        name: name of the column.
        value: the value to check.

    Raises:
        DataError: the value has one of these faults; it is too large if it holds more than 2^20
            values, and so as JSON is longer than 1 MiB. The message names place and column.
    """
    # Depth-first search without recursion: the iterators and ids of the containers above.
    path: list[Iterator[object]] = [iter([value])]
    count, ids_on_path = 0, [0]
    while path:
        part = next(path[-1], _END)
        if part is _END:
            path.pop()
            ids_on_path.pop()
            continue
        count += 1
        if count > MAX_BYTES:
            raise DataError(
                f"{place}: column {name!r} holds more than {MAX_BYTES} values: {_TOO_LONG_REMEDY}"
            )
        if isinstance(part, (Mapping, list, tuple)):
            if len(path) > MAX_DEPTH or id(part) in ids_on_path:
                raise DataError(
                    f"{place}: column {name!r} holds lists or mappings more than {MAX_DEPTH} deep, "
                    "or a container that contains itself: flatten it, or leave the column out"
                )
            path.append(iter(part.values() if isinstance(part, Mapping) else part))
            ids_on_path.append(id(part))


_END = object()
_TOO_LONG_REMEDY = (
    "write the value to a file and put the file's name in the column, or leave the column out"
)


def check_length(place: str, name: object, text: str) -> None:
    """Refuse a text of more than 1 MiB.

    Raises:
        DataError: the text is longer. The message names place and column.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        raise DataError(
            f"{place}: column {name!r} holds {size} bytes, more than {MAX_BYTES}; in a batch every "
            f"row would need as many: {_TOO_LONG_REMEDY}"
        )

"""Columns of examples: JSON of limited size. Imports no torch, so that bad files fail early."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from rlcomp.errors import DataError

# A batch holds a column as wide as its longest value, once for every answer: 1 MiB costs 1 GiB in
# 1,024 rows.
LONGEST = 2**20
# Limit of nested containers; JSON readers fail at about 900.
DEEPEST = 64
# Column with the conversation of an example: its "messages" up to the response, and if known the
# "completion" (the messages to imitate) and "tools".
CONVERSATION = "conversation"
# Column with true or false: the answer of the example is a good or a bad one.
DESIRABLE = "desirable"


def column_text(place: str, name: object, value: object) -> str:
    """Write a value of a column as JSON.

    Args:
        place: location of the value, for messages: ``file:line``.
        name: name of the column.
        value: texts, finite numbers, lists and mappings, at most 64 deep and 1 MiB long.

    Raises:
        DataError: the value is something else. The message names place and column.

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
            f"{place}: column {name!r} is {_shown(value)}, which is not JSON: {error}; make it of "
            "texts, finite numbers, lists and mappings, null where there is nothing"
        ) from error
    check_length(place, name, text)
    return text


def _shown(value: object) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # an integer of thousands of digits
        return f"of type {type(value).__name__}"


def _check_name(place: str, name: object) -> None:
    if not isinstance(name, str):
        raise DataError(f"{place}: column {name!r:.60} must be named by a text: rename it")
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise DataError(
            f"{place}: the name of column {name!r:.60} has half a character in it: rename it"
        )


def check_depth(place: str, name: object, value: object) -> None:
    """Refuse containers that are nested more than 64 deep or contain themselves.

    Raises:
        DataError: they are, or they hold more values than a text of 1 MiB has bytes. The message
            names place and column.
    """
    path: list[Iterator[object]] = [iter([value])]
    count, on_path = 0, [0]
    while path:
        part = next(path[-1], _END)
        if part is _END:
            path.pop()
            on_path.pop()
            continue
        count += 1
        if count > LONGEST:
            raise DataError(
                f"{place}: column {name!r} holds more than {LONGEST} values: keep it in a file of "
                "its own and name that here, or leave the column out"
            )
        if isinstance(part, (Mapping, list, tuple)):
            if len(path) > DEEPEST or id(part) in on_path:
                raise DataError(
                    f"{place}: column {name!r} holds lists or mappings more than {DEEPEST} deep, "
                    "or within themselves: flatten it, or leave the column out"
                )
            path.append(iter(part.values() if isinstance(part, Mapping) else part))
            on_path.append(id(part))


_END = object()


def check_length(place: str, name: object, text: str) -> None:
    """Refuse a text of more than 1 MiB.

    Raises:
        DataError: it is longer. The message names place and column.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > LONGEST:
        raise DataError(
            f"{place}: column {name!r} holds {size} bytes, more than {LONGEST}; every row of a "
            "batch is as wide as the longest: keep it in a file of its own and name that here, or "
            "leave the column out"
        )

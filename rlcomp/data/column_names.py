"""Columns of a data set: by the names that settings give them, and those likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from rlcomp.data.records import Row
from rlcomp.errors import DataError, nearest

# What data sets call these columns.
_USUAL = {
    "prompt_field": ("prompt", "problem", "instruction", "question", "query", "input"),
    "answer_field": (
        "answer",
        "completion",
        "solution",
        "response",
        "output",
        "target",
        "reward_model.ground_truth",
    ),
    "demonstration_field": ("completion", "solution", "response", "output"),
}
_PAIRS = (
    "; chosen and rejected are preferences, from which no recipe trains: imitate the chosen ones "
    "(task.answer_field=chosen), or bring answers that can be verified"
)


def check_columns(row: Row, named: Mapping[str, str | None]) -> None:
    """Refuse a row without the columns that settings name.

    Args:
        row: of the data.
        named: column by setting, ``prompt_field``, ...; None: none is wanted.

    Raises:
        DataError: names the columns that are not there, and what to set.
    """
    lacking = {s: name for s, name in named.items() if name and name not in row.columns}
    if lacking:
        names = [*dict.fromkeys(lacking.values())]
        found = {setting: likely(setting, name, row) for setting, name in lacking.items()}
        told = " ".join(f"task.{s}={meant or 'COLUMN'}" for s, meant in found.items())
        raise DataError(
            f"{row.place}: the row has no column {' and no column '.join(map(repr, names))}"
            f"{nearest(names[0], row.columns)}; set {told}"
            + ("" if any(found.values()) else ", or mend the row")
            + (_PAIRS if {"chosen", "rejected"} <= {*row.columns} else "")
        )


def value_at(columns: Mapping[str, object], name: str) -> object:
    """The value at a dotted name; None if there is none."""
    value: object = columns
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def likely(setting: str, name: str, row: Row) -> str | None:
    """The column that is likely meant: one of almost that name, or of a usual one."""
    close = difflib.get_close_matches(name, [*row.columns], n=1)
    usual = (one for one in _USUAL[setting] if value_at(row.columns, one) is not None)
    return next((one for one in [*close, *usual]), None)

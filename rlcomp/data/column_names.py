"""Columns of a data set: by the names that settings give them, and those likely meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from rlcomp.data.records import Row
from rlcomp.errors import DataError, nearest

_DEMONSTRATIONS = ("demonstration", "completion", "solution", "response", "output")
# What data sets call these columns.
_USUAL = {
    "prompt_field": ("prompt", "problem", "question", "instruction", "query", "input"),
    "answer_field": (
        "answer",
        "ground_truth",
        "reward_model.ground_truth",
        "final_answer",
        "solution",
        "completion",
        "response",
        "output",
        "target",
        "label",
    ),
    "demonstration_field": _DEMONSTRATIONS,
}
_WORDS = {
    "prompt_field": "prompts",
    "answer_field": "answers",
    "demonstration_field": "demonstrations",
}
# Columns about a row, which are neither asked nor answered.
_ABOUT = {
    *("id", "idx", "index", "uid", "uuid", "source", "data_source", "split", "ability", "metadata"),
    *("level", "type", "subject", "category", "topic", "difficulty", "extra_info", "reward_model"),
}
_PAIRS = (
    "; chosen and rejected are preferences: train on them with recipe=dpo task=preferences, or "
    "imitate the chosen ones (task.answer_field=chosen)"
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
        taken = [name for name in named.values() if name and name in row.columns]
        found = likely(lacking, row, taken)
        names = [*dict.fromkeys(lacking.values())]
        meant = [found[setting] for setting, name in lacking.items() if name == names[0]]
        raise DataError(
            f"{row.place}: the row has no column {' and no column '.join(map(repr, names))}"
            f"{_known(names[0], row, meant)}; {_remedy(found)}"
            + ("" if any(found.values()) else ", or mend the row")
            + _left_out(found, row)
            + (_PAIRS if {"chosen", "rejected"} <= {*row.columns} else "")
        )


def _left_out(found: Mapping[str, str | None], row: Row) -> str:
    """What to say of rows of Alpaca, whose instructions have an input beside them."""
    if found.get("prompt_field") != "instruction" or "input" in {None, *found.values()}:
        return ""
    if not isinstance(row.columns.get("input"), str):
        return ""
    from rlcomp.advice.format_hints import with_input

    return f"; that leaves the column 'input' out; to ask it as well{with_input(row.place)}"


def value_at(columns: Mapping[str, object], name: str) -> object:
    """The value at a dotted name; None if there is none."""
    value: object = columns
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def likely(
    lacking: Mapping[str, str], row: Row, taken: Collection[str] = ()
) -> dict[str, str | None]:
    """The columns that settings likely mean, each a column of its own; None: nobody can tell.

    Settings that name the same column go on doing so. One of almost the name comes first, then one
    of a usual name, then the only one that is left.

    Args:
        lacking: the column that is not there, by setting.
        row: of the data.
        taken: columns that other settings mean.

    Examples:
        >>> row = Row("a.jsonl:1", {"problem": "1+1", "solution": "2"})
        >>> likely({"prompt_field": "question", "answer_field": "answer"}, row)
        {'prompt_field': 'problem', 'answer_field': 'solution'}
        >>> likely({"answer_field": "answer"}, row, ["problem", "solution"])
        {'answer_field': None}
    """
    meant: dict[str, str] = {}
    for find in (_alike, _usual, _left):
        for setting, name in lacking.items():
            free = _free(setting, row, {*taken, *meant.values()})
            # Of those that are left the last one must be the only one, for all settings.
            several = find is _left and len({*lacking.values()} - {*meant}) > 1
            if name not in meant and not several and (one := find(setting, name, free)):
                meant[name] = one
    return {setting: meant.get(name) for setting, name in lacking.items()}


def no_answer(row: Row, name: str, taken: Collection[str]) -> str:
    """What to say of a conversation without an answer.

    Args:
        row: its row.
        name: the column of answers.
        taken: columns that other settings mean.
    """
    (meant,) = likely({"answer_field": name}, row, taken).values()
    remedy = f"set task.answer_field={meant}" if meant else "name one, task.answer_field"
    told = f"{row.place}: there is no column {name!r} and no final turn of the assistant"
    if not meant and not _free("answer_field", row, taken):
        return f"{told}{_known(name, row, [])}; end the messages with the assistant's"
    return f"{told}{_known(name, row, [meant])}; {remedy}, or end the messages with the assistant's"


def prompt_remedy(row: Row) -> str:
    """Where the prompt of a pair may stand, which is no text where it was looked for."""
    taken = ("chosen", "rejected", "prompt")
    meant = likely({"prompt_field": "prompt"}, row, taken)["prompt_field"]
    if meant:
        return f"set task.prompt_field={meant}"
    known = ", ".join(sorted(row.columns))
    return f"name its column, task.prompt_field (known: {known}), or mend the row"


def _known(name: str, row: Row, meant: Iterable[str | None]) -> str:
    """The columns of a row; the nearest name is asked about only where it is what is meant."""
    guess, _, listed = nearest(name, row.columns).rpartition(" (known: ")
    asked = any(f"'{one}'" in guess for one in meant)
    return f"{guess if asked else ''} (known: {listed}"


def _remedy(found: Mapping[str, str | None]) -> str:
    sure = " ".join(f"task.{setting}={meant}" for setting, meant in found.items() if meant)
    open_ = [
        f"task.{setting} to the column of {_WORDS[setting]}"
        for setting, meant in found.items()
        if not meant
    ]
    return f"set {' and '.join([*([sure] if sure else []), *open_])}"


def _free(setting: str, row: Row, taken: Collection[str]) -> list[str]:
    """The columns that may hold what a setting means, dotted ones among them."""
    inner = [name for name in _USUAL[setting] if "." in name]
    kinds = (str, list) if setting == "prompt_field" else (str, int, float, Decimal)
    return [
        name
        for name in (*row.columns, *inner)
        if name not in taken
        and isinstance(value := value_at(row.columns, name), kinds)
        and not isinstance(value, bool)
    ]


def _alike(setting: str, name: str, free: list[str]) -> str | None:
    """One of almost the name, unless it is what data sets call another column."""
    others = {one for kind, usual in _USUAL.items() if kind != setting for one in usual}
    own = [one for one in free if one not in others - {*_USUAL[setting]}]
    return next(iter(difflib.get_close_matches(name, own, n=1, cutoff=0.75)), None)


def _usual(setting: str, name: str, free: list[str]) -> str | None:
    """One of a usual name."""
    return next((one for one in _USUAL[setting] if one in free), None)


def _left(setting: str, name: str, free: list[str]) -> str | None:
    """The only one that is left, whatever it is called."""
    if setting == "demonstration_field":
        return None  # whatever is left may as well be something else
    others = {one for kind, usual in _USUAL.items() if kind != setting for one in usual}
    left = [one for one in free if one not in _ABOUT | (others - {*_USUAL[setting]})]
    return left[0] if len(left) == 1 else None

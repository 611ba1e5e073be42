"""Column names in settings: their check against a row, and guesses for wrong ones."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from rlcomp.data.records import Row
from rlcomp.errors import DataError, nearest

# Usual names of these columns in data sets.
_USUAL_NAMES = {
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
    "demonstration_field": ("demonstration", "completion", "solution", "response", "output"),
}
_COLUMN_KINDS = {
    "prompt_field": "prompts",
    "answer_field": "answers",
    "demonstration_field": "demonstrations",
}
# Columns that describe a row; they are neither prompt nor answer.
_DESCRIPTIVE_COLUMNS = {
    *("id", "idx", "index", "uid", "uuid", "source", "data_source", "split", "ability", "metadata"),
    *("level", "type", "subject", "category", "topic", "difficulty", "extra_info", "reward_model"),
}
_PREFERENCE_HINT = (
    "; chosen and rejected are preferences: train on them with recipe=dpo task=preferences, or "
    "imitate the chosen ones (task.answer_field=chosen)"
)


def check_columns(row: Row, named: Mapping[str, str | None]) -> None:
    """Refuse a row without the columns that settings name.

    Args:
        row: the row to check.
        named: the column of each setting, ``prompt_field``, ...; None: the setting needs no column.

    Raises:
        DataError: a column is missing; the message names it and the setting.
    """
    lacking = {s: name for s, name in named.items() if name and name not in row.columns}
    if lacking:
        taken = [name for name in named.values() if name and name in row.columns]
        guesses = guess_columns(lacking, row, taken)
        names = [*dict.fromkeys(lacking.values())]
        guessed = [guesses[setting] for setting, name in lacking.items() if name == names[0]]
        raise DataError(
            f"{row.place}: the row has no column {' and no column '.join(map(repr, names))}"
            f"{_column_list(names[0], row, guessed)}; {_remedy(guesses)}"
            + ("" if any(guesses.values()) else ", or mend the row")
            + _input_column_hint(guesses, row)
            + (_PREFERENCE_HINT if {"chosen", "rejected"} <= {*row.columns} else "")
        )


def _input_column_hint(guesses: Mapping[str, str | None], row: Row) -> str:
    """Return the hint for Alpaca's rows (``instruction`` and ``input``); '' for other rows."""
    if guesses.get("prompt_field") != "instruction" or "input" in {None, *guesses.values()}:
        return ""
    if not isinstance(row.columns.get("input"), str):
        return ""
    from rlcomp.advice.format_hints import joining_hint

    return f"; that leaves the column 'input' out; to ask it as well{joining_hint(row.place)}"


def value_at(columns: Mapping[str, object], name: str) -> object:
    """Return the value at a dotted name; None if there is none."""
    value: object = columns
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def guess_columns(
    lacking: Mapping[str, str], row: Row, taken: Collection[str] = ()
) -> dict[str, str | None]:
    """Guess the column that each setting means; None where there is no good guess.

    A column with a similar name comes first, then a column with a usual name, then the only column
    left. Two settings get the same column only if they name the same missing column.

    Args:
        lacking: the missing column of each setting.
        row: a row with all columns.
        taken: columns that other settings name.

    Examples:
        >>> row = Row("a.jsonl:1", {"problem": "1+1", "solution": "2"})
        >>> guess_columns({"prompt_field": "question", "answer_field": "answer"}, row)
        {'prompt_field': 'problem', 'answer_field': 'solution'}
        >>> guess_columns({"answer_field": "answer"}, row, ["problem", "solution"])
        {'answer_field': None}
    """
    guessed: dict[str, str] = {}
    for find in (_similar_name, _usual_name, _only_column):
        for setting, name in lacking.items():
            free = _free_columns(setting, row, {*taken, *guessed.values()})
            # The only column left is a good guess for one missing name only.
            is_ambiguous = find is _only_column and len({*lacking.values()} - {*guessed}) > 1
            if name not in guessed and not is_ambiguous and (column := find(setting, name, free)):
                guessed[name] = column
    return {setting: guessed.get(name) for setting, name in lacking.items()}


def no_answer(row: Row, name: str, taken: Collection[str]) -> str:
    """Return the message for a conversation without an answer in the column ``name``.

    Columns in ``taken`` belong to other settings.
    """
    (guessed,) = guess_columns({"answer_field": name}, row, taken).values()
    remedy = f"set task.answer_field={guessed}" if guessed else "name one, task.answer_field"
    problem = f"{row.place}: there is no column {name!r} and no final turn of the assistant"
    if not guessed and not _free_columns("answer_field", row, taken):
        return f"{problem}{_column_list(name, row, [])}; end the messages with the assistant's"
    columns = _column_list(name, row, [guessed])
    return f"{problem}{columns}; {remedy}, or end the messages with the assistant's"


def prompt_remedy(row: Row) -> str:
    """Return the remedy for a pair whose prompt is not a text: another column."""
    taken = ("chosen", "rejected", "prompt")
    guessed = guess_columns({"prompt_field": "prompt"}, row, taken)["prompt_field"]
    if guessed:
        return f"set task.prompt_field={guessed}"
    known = ", ".join(sorted(row.columns))
    return f"name its column, task.prompt_field (known: {known}), or mend the row"


def _column_list(name: str, row: Row, guessed: Iterable[str | None]) -> str:
    """List the columns of a row; suggest the nearest name only if it is among ``guessed``."""
    guess, _, listed = nearest(name, row.columns).rpartition(" (known: ")
    is_guessed = any(f"'{column}'" in guess for column in guessed)
    return f"{guess if is_guessed else ''} (known: {listed}"


def _remedy(guesses: Mapping[str, str | None]) -> str:
    """Return the remedy: the guessed settings as overrides, and the others in words."""
    overrides = " ".join(
        f"task.{setting}={column}" for setting, column in guesses.items() if column
    )
    descriptions = [
        f"task.{setting} to the column of {_COLUMN_KINDS[setting]}"
        for setting, column in guesses.items()
        if not column
    ]
    return f"set {' and '.join([*([overrides] if overrides else []), *descriptions])}"


def _free_columns(setting: str, row: Row, taken: Collection[str]) -> list[str]:
    """Return the free columns with a type that the setting can take, dotted names included."""
    inner = [name for name in _USUAL_NAMES[setting] if "." in name]
    kinds = (str, list) if setting == "prompt_field" else (str, int, float, Decimal)
    return [
        name
        for name in (*row.columns, *inner)
        if name not in taken
        and isinstance(value := value_at(row.columns, name), kinds)
        and not isinstance(value, bool)
    ]


def _similar_name(setting: str, name: str, free: list[str]) -> str | None:
    """Return a column with a similar name, unless it is a usual name of another setting."""
    candidates = [column for column in free if column not in _names_of_other_settings(setting)]
    return next(iter(difflib.get_close_matches(name, candidates, n=1, cutoff=0.75)), None)


def _usual_name(setting: str, name: str, free: list[str]) -> str | None:
    """Return a column with a usual name of the setting."""
    return next((column for column in _USUAL_NAMES[setting] if column in free), None)


def _only_column(setting: str, name: str, free: list[str]) -> str | None:
    """Return the only free column that neither describes the row nor belongs to another setting."""
    if setting == "demonstration_field":
        return None  # the last column may be anything
    unlikely = _DESCRIPTIVE_COLUMNS | _names_of_other_settings(setting)
    candidates = [column for column in free if column not in unlikely]
    return candidates[0] if len(candidates) == 1 else None


def _names_of_other_settings(setting: str) -> set[str]:
    """Return the usual names of other settings that are no usual names of this one."""
    names = {name for key, usual in _USUAL_NAMES.items() if key != setting for name in usual}
    return names - {*_USUAL_NAMES[setting]}

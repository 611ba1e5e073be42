"""Extraction of the answer from a response, and of columns from an example."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal

from rlcomp.errors import DataError, nearest
from rlcomp.functional.prefix_match import commands

Where = Literal["whole", "boxed", "tagged"]

_LONGEST = 20_000
_TAGGED = re.compile(r"(?s)<answer>((?:(?!</?answer>).)*)</answer>")


def extract(response: str, where: Where, *, think_end: str = "</think>") -> str | None:
    r"""Return the answer that a response gives in the agreed place, stripped of white space.

    Text up to the last ``think_end`` is ignored. A response with two different answers in that
    place has none, because it does not commit itself.

    Args:
        response: text of the policy.
        where: ``whole``: all of it is the answer; ``boxed``: ``\boxed{...}`` with balanced braces;
            ``tagged``: ``<answer>...</answer>``.
        think_end: text that ends the thoughts.

    Returns:
        The answer, which may be empty; None if there is none, or more than one.

    Examples:
        >>> extract(r"\boxed{6}?</think>It is \boxed{\frac{1}{2}}.", "boxed")
        '\\frac{1}{2}'
        >>> extract(r"\boxed{6} or \boxed{7}", "boxed") is None
        True
    """
    text = response.rpartition(think_end)[2]
    answers = {answer.strip() for answer in _candidates(text, where)}
    return answers.pop() if len(answers) == 1 else None


def _candidates(text: str, where: Where) -> list[str]:
    if where == "whole":
        return [text]
    if where == "tagged":
        return _TAGGED.findall(text)
    encoded = text.encode("utf-8", "surrogatepass")
    return [box.decode("utf-8", "surrogatepass") for box in commands(encoded, b"boxed")]


def read_json(text: str | None) -> object:
    """Return the JSON value of an answer of at most 20,000 characters; None if it is none.

    Examples:
        >>> read_json('{"a": [1]}'), read_json("a = 1"), read_json(None)
        ({'a': [1]}, None, None)
    """
    if text is None or len(text) > _LONGEST:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def column(row: Mapping[str, object], name: str, user: str) -> object:
    """Return a column of a row.

    Args:
        row: texts and columns by name.
        name: name of the column.
        user: the part that needs it, such as ``reward=ifeval``, for messages.

    Raises:
        DataError: the row has no such column.
    """
    if name not in row:
        raise DataError(
            f"{user} needs the column {name!r}, which this example does not have"
            f"{nearest(name, row)}: add it to the rows of the task"
        )
    return row[name]


def gold_answers(row: Mapping[str, object]) -> list[str]:
    """Return the answer of a row and the answers in its column ``answers``, without blank ones.

    Raises:
        DataError: the column is not a list of texts.

    Examples:
        >>> gold_answers({"answer": "UK", "answers": ["Britain", " "]})
        ['UK', 'Britain']
    """
    others = row.get("answers", [])
    if not isinstance(others, list) or not all(isinstance(text, str) for text in others):
        raise DataError(f"the column 'answers' is {others!r:.80}: must be a list of texts")
    return [text for text in (str(row["answer"]), *others) if text.strip()]

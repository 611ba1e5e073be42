"""Code answers: where a program stands in a response, and whether what it gave is right.

Nothing is run here, and nothing parsed as Python: that is for the sandbox.
"""

from __future__ import annotations

import math
import re
from itertools import zip_longest
from typing import Any, Literal

Where = Literal["block", "whole"]

_LONGEST = 100_000
_LANGUAGES = ("", "python", "python3", "py")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def code_of(response: str, where: Where, *, think_end: str = "</think>") -> str | None:
    r"""The program that a response gives, its white space untouched.

    Thoughts do not count: what stands up to the last ``think_end`` is not looked at. Two different
    programs are none, because the response does not commit itself; neither is a block that does not
    close. Blocks of another language (`````text``, `````bash``) are no programs.

    Args:
        response: what the policy wrote.
        where: ``block``: between a line ``` (or ```python) and a line ```; ``whole``: all of it.
        think_end: ends the thoughts; without one nothing is cut off.

    Returns:
        The program; None if there is none, more than one, or more than 100,000 characters.

    Examples:
        >>> code_of("Thus:\n```python\nx = 1\n```\n```text\n1\n```", "block")
        'x = 1\n'
        >>> code_of("```\nx = 1\n```\nor\n```\nx = 2\n```", "block") is None
        True
    """
    said = response.rpartition(think_end)[2]
    found = {said} if where == "whole" else _blocks(said)
    if found is None or len(found) != 1:
        return None
    (code,) = found
    return code if len(code) <= _LONGEST else None


def _blocks(text: str) -> set[str] | None:
    """The programs between fences; None where the last fence does not close."""
    found: set[str] = set()
    inside: list[str] | None = None
    language = ""
    for line in text.split("\n"):
        fence = line.strip()
        if inside is None:
            if fence.startswith("```"):
                inside, language = [], fence[3:].strip().lower()
        elif fence == "```":
            if language in _LANGUAGES:
                found.add("".join(f"{each}\n" for each in inside))
            inside = None
        else:
            inside.append(line)
    return found if inside is None else None


def same_output(given: str, expected: str, *, absolute: float = 0.0, relative: float = 0.0) -> bool:
    r"""Whether two outputs are the same, line by line, but for white space.

    Empty lines at both ends do not count, nor does the width of the white space in a line.

    Args:
        given: what a program wrote.
        expected: what it should.
        absolute: two decimal numbers may differ by so much.
        relative: or by so much of the larger one.

    Examples:
        >>> same_output("1  2 \n\n", "1 2"), same_output("1\n2", "1 2")
        (True, False)
        >>> same_output("0.333", "0.3333", absolute=1e-3), same_output("1e0", "1")
        (True, False)
    """
    pairs = zip_longest(_lines(given), _lines(expected))
    return all(_same_line(one, other, absolute, relative) for one, other in pairs)


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().split("\n")]


def _same_line(
    one: list[str] | None, other: list[str] | None, absolute: float, relative: float
) -> bool:
    if one is None or other is None or len(one) != len(other):
        return False
    return all(
        given == wanted or _near_words(given, wanted, absolute, relative)
        for given, wanted in zip(one, other, strict=True)
    )


def _near_words(given: str, wanted: str, absolute: float, relative: float) -> bool:
    if not (absolute or relative) or max(len(given), len(wanted)) > 100:
        return False
    if not (_NUMBER.fullmatch(given) and _NUMBER.fullmatch(wanted)):
        return False
    return _near(float(given), float(wanted), absolute, relative)


def same_value(
    given: Any,  # noqa: ANN401
    expected: Any,  # noqa: ANN401
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
) -> bool:
    """Whether a value of plain data is the one that JSON holds.

    Lists and tuples are the same, numbers are equal as numbers within the tolerances, and a bool is
    no number. The keys of a dict are texts in JSON: those that are integers count as their digits.

    Args:
        given: what a program returned.
        expected: from JSON.
        absolute: numbers may differ by so much.
        relative: or by so much of the larger one.

    Examples:
        >>> same_value((1, 2.0), [1, 2]), same_value(True, 1), same_value({1: "a"}, {"1": "a"})
        (True, False, True)
        >>> same_value(0.1 + 0.2, 0.3), same_value(0.1 + 0.2, 0.3, absolute=1e-9)
        (False, True)
    """
    if isinstance(expected, bool) or expected is None or isinstance(expected, str):
        return type(given) is type(expected) and bool(given == expected)
    if isinstance(expected, (int, float)):
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            return False
        return given == expected or _near(given, expected, absolute, relative)
    if isinstance(expected, dict):
        named = _named(given) if isinstance(given, dict) else None
        return (
            named is not None
            and named.keys() == expected.keys()
            and all(
                same_value(named[key], value, absolute=absolute, relative=relative)
                for key, value in expected.items()
            )
        )
    return (
        isinstance(given, (list, tuple))
        and len(given) == len(expected)
        and all(
            same_value(one, other, absolute=absolute, relative=relative)
            for one, other in zip(given, expected, strict=True)
        )
    )


def _named(given: dict[Any, Any]) -> dict[str, Any] | None:
    """A dict with its keys as texts; None where a key is something else, or two become one."""
    keys = [key for key in given if type(key) in (int, str)]
    named = {str(key): given[key] for key in keys}
    return named if len(named) == len(given) else None


def _near(one: float, other: float, absolute: float, relative: float) -> bool:
    try:
        return math.isclose(one, other, abs_tol=absolute, rel_tol=relative)
    except OverflowError:  # an integer beyond all floats
        return False

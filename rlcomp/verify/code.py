"""Code answers: the program in a response, and comparisons of its outputs.

No program is run or parsed here: that is for the sandbox.
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
    r"""Return the program that a response gives, with its white space.

    Thoughts do not count: text up to the last ``think_end`` is ignored. A response with two
    different programs has none, because it does not commit itself; neither has one with a block
    that is not closed. Blocks of another language (`````text``, `````bash``) are no programs.

    Args:
        response: what the policy wrote.
        where: ``block``: between a line ``` (or ```python) and a line ```; ``whole``: all of it.
        think_end: ends the thoughts; if it does not occur, the whole response counts.

    Returns:
        The program; None if there is none, more than one, or more than 100,000 characters.

    Examples:
        >>> code_of("Thus:\n```python\nx = 1\n```\n```text\n1\n```", "block")
        'x = 1\n'
        >>> code_of("```\nx = 1\n```\nor\n```\nx = 2\n```", "block") is None
        True
    """
    text = response.rpartition(think_end)[2]
    programs = {text} if where == "whole" else _blocks(text)
    if programs is None or len(programs) != 1:
        return None
    (code,) = programs
    return code if len(code) <= _LONGEST else None


def _blocks(text: str) -> set[str] | None:
    """Return the programs between fences; None if the last block is not closed."""
    programs: set[str] = set()
    inside: list[str] | None = None
    language = ""
    for line in text.split("\n"):
        fence = line.strip()
        if inside is None:
            if fence.startswith("```"):
                inside, language = [], fence[3:].strip().lower()
        elif fence == "```":
            if language in _LANGUAGES:
                programs.add("".join(f"{each}\n" for each in inside))
            inside = None
        else:
            inside.append(line)
    return programs if inside is None else None


def same_output(given: str, expected: str, *, absolute: float = 0.0, relative: float = 0.0) -> bool:
    r"""Return whether two outputs are the same, line by line, except for white space.

    Empty lines at both ends do not count, nor does the width of the white space in a line.

    Args:
        given: the output of a program.
        expected: the right output.
        absolute: the absolute tolerance of decimal numbers.
        relative: their relative tolerance, a share of the larger one; at least one must hold.

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
        word == wanted or _near_words(word, wanted, absolute, relative)
        for word, wanted in zip(one, other, strict=True)
    )


def _near_words(word: str, wanted: str, absolute: float, relative: float) -> bool:
    if not (absolute or relative) or max(len(word), len(wanted)) > 100:
        return False
    if not (_NUMBER.fullmatch(word) and _NUMBER.fullmatch(wanted)):
        return False
    return _near(float(word), float(wanted), absolute, relative)


def same_value(
    given: Any,  # noqa: ANN401
    expected: Any,  # noqa: ANN401
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
) -> bool:
    """Return whether a value of plain data equals a value read from JSON.

    Lists and tuples are the same. Numbers are compared as numbers, within the tolerances; a bool
    is no number. The keys of a dict are texts in JSON: an integer key counts as its digits.

    Args:
        given: the value that a program returned.
        expected: the value from JSON.
        absolute: the absolute tolerance of numbers.
        relative: their relative tolerance, a share of the larger one; at least one must hold.

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


def _named(mapping: dict[Any, Any]) -> dict[str, Any] | None:
    """Return a dict with texts as keys; None if a key is no text or integer, or two collide."""
    keys = [key for key in mapping if type(key) in (int, str)]
    named = {str(key): mapping[key] for key in keys}
    return named if len(named) == len(mapping) else None


def _near(one: float, other: float, absolute: float, relative: float) -> bool:
    try:
        return math.isclose(one, other, abs_tol=absolute, rel_tol=relative)
    except OverflowError:  # an integer larger than any float
        return False

"""Code answers: the program in a response, its linter, and comparisons of its outputs.

No program is run here: that is for the sandbox.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal

from rlcomp.errors import ConfigError, require

Where = Literal["block", "whole"]

_MAX_CHARACTERS = 100_000
_LANGUAGES = ("", "python", "python3", "py")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def code_of(response: str, where: Where, *, think_end: str = "</think>") -> str | None:
    r"""Return the program that a response gives, with its white space.

    Text up to the last ``think_end`` is ignored. A response with two different programs, or with a
    block that is not closed, gives no program. A block of another language (`````text``,
    `````bash``) is no program.

    Args:
        response: text of the policy.
        where: ``block``: between a line ``` (or ```python) and a line ```; ``whole``: all of it.
        think_end: text that ends the thoughts.

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
    return code if len(code) <= _MAX_CHARACTERS else None


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


def same_output(
    output: str, expected: str, *, absolute: float = 0.0, relative: float = 0.0
) -> bool:
    r"""Return whether two outputs are the same, line by line, except for white space.

    Empty lines at both ends do not count, nor does the width of the white space in a line.

    Args:
        output: the output of a program.
        expected: the right output.
        absolute: absolute tolerance of decimal numbers.
        relative: relative tolerance, a share of the larger number; either tolerance suffices.

    Examples:
        >>> same_output("1  2 \n\n", "1 2"), same_output("1\n2", "1 2")
        (True, False)
        >>> same_output("0.333", "0.3333", absolute=1e-3), same_output("1e0", "1")
        (True, False)
    """
    pairs = zip_longest(_lines(output), _lines(expected))
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
    """Return whether two words of at most 100 characters are decimal numbers near each other."""
    if not (absolute or relative) or max(len(word), len(wanted)) > 100:
        return False
    if not (_NUMBER.fullmatch(word) and _NUMBER.fullmatch(wanted)):
        return False
    return _near(float(word), float(wanted), absolute, relative)


def same_value(
    value: Any,  # noqa: ANN401
    expected: Any,  # noqa: ANN401
    *,
    absolute: float = 0.0,
    relative: float = 0.0,
) -> bool:
    """Return whether a value of plain data equals a value read from JSON.

    Lists and tuples are the same. Numbers are compared as numbers, within the tolerances; a bool
    is not a number. The keys of a dict are texts in JSON: an integer key counts as its digits.

    Args:
        value: the value that a program returned.
        expected: the value from JSON.
        absolute: absolute tolerance of numbers.
        relative: relative tolerance, a share of the larger number; either tolerance suffices.

    Examples:
        >>> same_value((1, 2.0), [1, 2]), same_value(True, 1), same_value({1: "a"}, {"1": "a"})
        (True, False, True)
        >>> same_value(0.1 + 0.2, 0.3), same_value(0.1 + 0.2, 0.3, absolute=1e-9)
        (False, True)
    """
    if isinstance(expected, bool) or expected is None or isinstance(expected, str):
        return type(value) is type(expected) and bool(value == expected)
    if isinstance(expected, (int, float)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return value == expected or _near(value, expected, absolute, relative)
    if isinstance(expected, dict):
        named = _text_keys(value) if isinstance(value, dict) else None
        return (
            named is not None
            and named.keys() == expected.keys()
            and all(
                same_value(named[key], wanted, absolute=absolute, relative=relative)
                for key, wanted in expected.items()
            )
        )
    return (
        isinstance(value, (list, tuple))
        and len(value) == len(expected)
        and all(
            same_value(one, other, absolute=absolute, relative=relative)
            for one, other in zip(value, expected, strict=True)
        )
    )


def _text_keys(mapping: dict[Any, Any]) -> dict[str, Any] | None:
    """Return a dict with texts as keys; None if a key is not a text or integer, or two collide."""
    keys = [key for key in mapping if type(key) in (int, str)]
    named = {str(key): mapping[key] for key in keys}
    return named if len(named) == len(mapping) else None


def _near(one: float, other: float, absolute: float, relative: float) -> bool:
    try:
        return math.isclose(one, other, abs_tol=absolute, rel_tol=relative)
    except OverflowError:  # an integer larger than any float
        return False


_LINT_SECONDS = 10.0
# Comments that change the verdict and that no flag of ruff disables.
_ISORT_COMMENT = re.compile(r"#\s*(?:ruff:\s*)?isort:", re.IGNORECASE)


def is_clean(source: str, rules: Sequence[str]) -> bool:
    """Return whether ruff reports no violation in a program.

    Settings of this machine and ``noqa`` comments do not count. A program with an ``isort:``
    comment, which hides lines from ruff, is not clean; nor is one that ruff cannot read within ten
    seconds. If ruff is not installed or does not know a rule, no program is clean:
    :func:`check_rules` raises an error then.

    Args:
        source: Python.
        rules: selectors of ruff rules, such as ``["E", "F"]``.

    Examples:
        >>> is_clean("x = 1", ["F"]), is_clean("import os  # noqa", ["F"])
        (True, False)
        >>> is_clean("import sys  # isort: skip", ["I"])
        False
    """
    if _ISORT_COMMENT.search(source):
        return False
    try:
        return _ruff(source, rules).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def check_rules(rules: Sequence[str]) -> None:
    """Refuse rules that ruff does not know.

    Raises:
        ConfigError: a rule is unknown; the message is ruff's.
        MissingExtra: ruff is not installed (extra ``verify``).
    """
    require("ruff", "verify")
    process = _ruff("", rules)
    if process.returncode != 0:
        message = " ".join(process.stderr.decode(errors="replace").split())
        raise ConfigError(f"lint is {[*rules]}, which ruff refuses: {message[:200]}")


def _ruff(source: str, rules: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    settings = ["--isolated", "--no-cache", "--ignore-noqa", "--quiet", "--output-format=concise"]
    return subprocess.run(
        [
            sys.executable,
            "-I",
            "-m",
            "ruff",
            "check",
            *settings,
            f"--select={','.join(rules)}",
            "-",
        ],
        input=source.encode(errors="replace"),
        capture_output=True,
        timeout=_LINT_SECONDS,
        check=False,
    )

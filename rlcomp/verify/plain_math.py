"""Numbers in LaTeX and Unicode as plain text."""

from __future__ import annotations

import re

_CHARACTERS: dict[int, str | None] = {
    **{0xFF10 + digit: str(digit) for digit in range(10)},
    0x2212: "-",  # minus
    0x2013: "-",  # en dash
    0x00D7: "*",  # times
    0x00F7: "/",  # divided by
    0x00A0: " ",  # no-break space
    0x2009: None,  # thin space
    0x202F: None,  # narrow no-break space
    ord("$"): None,
}
# Calculations of GSM8K, tags and arrows.
_NOTES = re.compile(r"<<[^<>]*>>|</?[A-Za-z][^<>\s]*>|(?<![-=])[-=]+>")
_SPACES = re.compile(r"\\[,!;: ]|\{,\}(?=[0-9])")
_FRACTION = re.compile(
    r"\\[dtc]?frac\s*(?:\{\s*(-?[0-9]+)\s*\}|([0-9]))\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))"
)
_COMMANDS = {
    "times": "*",
    "cdot": "*",
    "div": "/",
    "pm": "±",
    "mp": "±",
    "ne": "≠",
    "neq": "≠",
    "approx": "≈",
    "le": "≤",
    "leq": "≤",
    "lt": "<",
    "ge": "≥",
    "geq": "≥",
    "gt": ">",
}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
# An exponent of a unit and an index of a name are no numbers of their own.
_ATTACHED = re.compile(r"(?:(?<=[A-Za-z])|(?<=[A-Za-z]\}))[\^_](?:\{-?\w*\}|-?\w)")


def plain_math(text: str) -> str:
    r"""A text with numbers in LaTeX or Unicode, as one with plain numbers.

    ``\frac12`` becomes `` 1/2``, ``1\,000`` and ``1{,}000`` become ``1000`` and ``1,000``; dollar
    signs, tags, emphasis, GSM8K's calculations ``<<..>>`` and unknown commands disappear.

    Examples:
        >>> plain_math(r"$x_1 = 2\frac{1}{2}\text{ m}^2 \pm 1\%$").split()
        ['x', '=', '2', '1/2', 'm', '±', '1%']
    """
    text = _NOTES.sub(" ", text.translate(_CHARACTERS).replace("+/-", "±"))
    text = _SPACES.sub(lambda gap: "," if gap[0] == "{,}" else "", text).replace("\\%", "%")
    text = _FRACTION.sub(lambda f: f" {f[1] or f[2]}/{f[3] or f[4]}", text.replace("**", ""))
    text = _COMMAND.sub(lambda command: _COMMANDS.get(command[1], " "), text)
    return re.sub(r"[{}\\]", " ", _ATTACHED.sub("", text.replace("{}", "")))

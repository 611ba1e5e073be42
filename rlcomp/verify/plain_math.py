"""Conversion of numbers in LaTeX and Unicode to plain text."""

from __future__ import annotations

import html
import re

from rlcomp.verify.qualifiers import VALUE_COMMANDS, plain_signs
from rlcomp.verify.unicode_math import ascii_numerals

_CHARACTERS: dict[int, str | None] = {
    **dict.fromkeys((0x2212, 0x2013, 0x2010, 0x2011, 0xFF0D, 0xFE63), "-"),  # minus and dashes
    0x221A: "≠",  # root
    0x03C0: "≠",  # pi
    0x00D7: "*",  # times
    0x00F7: "/",  # divided by
    0x00A0: " ",  # no-break space
    0x2009: None,  # thin space
    0x202F: None,  # narrow no-break space
    0x2192: " ",  # arrow
    0x21D2: " ",  # double arrow
    0x2234: " ",  # therefore
    0x223C: "~",  # tilde operator
    0x301C: "~",  # wave dash
    0xFF5E: "~",  # fullwidth tilde
    ord("$"): None,
}
# Calculations of GSM8K, tags, special tokens and arrows; x => 7 is a relation.
_NOTES = re.compile(
    r"<<[^<>]*>>|</?[A-Za-z][^<>\s]*>|<\|\w*\|>|(?<!\b[A-Za-z] )(?<!\b[A-Za-z])(?<![-=])[-=]+>"
)
_SPACES = re.compile(r"\\[,!;: ]|\{,\}(?=[0-9])")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ\b)")
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
    "sim": "~",
    "infty": "∞",
    "overline": "≠",
    "bar": "≠",
}
# Commands that change the value of their number.
_CHANGING = (
    "sqrt sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp gcd det "
    "lim sum prod int binom dbinom tbinom choose pi theta phi"
)
_FUNCTIONS = frozenset(_CHANGING.split())
_BLANKS = {"rightarrow", "Rightarrow", "longrightarrow", "implies", "to", "item", "newline", "par"}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
# The exponent of a unit and the index of a name are no separate numbers.
_ATTACHED = re.compile(r"(?:(?<=[A-Za-z])|(?<=[A-Za-z]\}))[\^_](?:\{-?\w*\}|-?\w)")


def plain_math(text: str) -> str:
    r"""Convert the numbers of a text in LaTeX or Unicode to plain numbers.

    ``\frac12`` becomes `` 1/2``, ``1\,000`` and ``1{,}000`` become ``1000`` and ``1,000``; dollar
    signs, tags, emphasis, GSM8K's calculations ``<<..>>`` and formatting commands disappear. A
    command or a sign that forms no value, such as ``\exists``, becomes ``≠``.

    Examples:
        >>> plain_math(r"$x_1 = 2\frac{1}{2}\text{ m}^2 \pm 1\%$").split()
        ['x', '=', '2', '1/2', 'm', '±', '1%']
    """
    text = _DEGREES.sub("°", ascii_numerals(html.unescape(text)))
    text = _NOTES.sub(" ", text.translate(_CHARACTERS).replace("+/-", "±"))
    text = _SPACES.sub(lambda gap: "," if gap[0] == "{,}" else "", text).replace("\\%", "%")
    text = _FRACTION.sub(lambda f: f" {f[1] or f[2]}/{f[3] or f[4]}", text.replace("**", ""))
    text = _COMMAND.sub(lambda command: _sign(command[1]), plain_signs(text))
    return re.sub(r"[{}\\]", " ", _ATTACHED.sub("", text.replace("{}", "")))


def _sign(command: str) -> str:
    blank = command in (VALUE_COMMANDS - _FUNCTIONS) or command in _BLANKS
    return _COMMANDS.get(command, " " if blank else "≠")

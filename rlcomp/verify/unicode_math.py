"""Conversion of mathematical signs in Unicode to LaTeX, which math-verify reads."""

from __future__ import annotations

import re
import unicodedata

_SIGNS = {
    **dict.fromkeys("\u2212\u2013\u2010\u2011\u207b\uff0d\ufe63", "-"),
    **dict.fromkeys("\u2215\u2044\uff0f", "/"),
    **dict.fromkeys("\u00b7\u2219\u22c5", r"\cdot "),
    **dict.fromkeys("\u3001\uff0c", ","),
    **{"\u00d7": r"\times ", "\u00f7": r"\div ", "\uff1b": ";", "\uff1a": ":", "\u3002": "."},
    **{"\uff08": "(", "\uff09": ")", "\uff0b": "+", "\uff1d": "=", "\uff0e": "."},
}
_TABLE = str.maketrans(_SIGNS)
# Exponents, except after a unit: math-verify reads 7 m² as 7.
_RAISED = re.compile(
    "(?<![cdkm]m)(?<!in)(?<!ft)(?<!yd)(?<![0-9 ]m)[\u2070\u00b9\u00b2\u00b3\u2074-\u207b]+"
)
# Fraction characters such as ½; after an integer they make a mixed number: 7½ is 15/2.
_FRACTIONS = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")


def unicode_math(text: str) -> str:
    r"""Convert operators, exponents, fractions and digits of Unicode to LaTeX.

    Examples:
        >>> unicode_math("2⁷ · 7½ − ３"), unicode_math("6，7")
        ('2^{7} \\cdot  7\\frac{1}{2} - 3', '6,7')
    """
    if text.isascii():
        return text
    text = _RAISED.sub(lambda raised: f"^{{{unicodedata.normalize('NFKC', raised[0])}}}", text)
    return ascii_numerals(text).translate(_TABLE)


def ascii_numerals(text: str) -> str:
    r"""Convert decimal digits of any script to ASCII, and fractions to LaTeX.

    Examples:
        >>> ascii_numerals("٧٠½")
        '70\\frac{1}{2}'
    """
    return "".join(map(_digit, _FRACTIONS.sub(_fraction, text)))


def _fraction(sign: re.Match[str]) -> str:
    top, bottom = unicodedata.normalize("NFKC", sign[0]).split("\u2044")
    return rf"\frac{{{top}}}{{{bottom}}}"


def _digit(character: str) -> str:
    value = None if character.isascii() else unicodedata.decimal(character, None)
    return character if value is None else str(value)

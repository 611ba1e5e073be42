"""Mathematics in plain text and Unicode."""

from __future__ import annotations

import html
import re
import unicodedata

from rlcomp.verify.qualifiers import PLAIN_SIGNS, VALUE_COMMANDS

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


# Plain signs of characters. Beside a number, ``≠`` says that the number alone is not the value.
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
# Plain signs of commands; ``≠`` as above.
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
_CHANGING_NAMES = (
    "sqrt sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp gcd det "
    "lim sum prod int binom dbinom tbinom choose pi theta phi"
)
_CHANGING = frozenset(_CHANGING_NAMES.split())
# Commands between values, which become a space.
_BLANKS = {"rightarrow", "Rightarrow", "longrightarrow", "implies", "to", "item", "newline", "par"}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_KNOWN_SIGNS = PLAIN_SIGNS | {*"≈±≤≥≠∞"}
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
    blank = command in (VALUE_COMMANDS - _CHANGING) or command in _BLANKS
    return _COMMANDS.get(command, " " if blank else "≠")


def plain_signs(text: str) -> str:
    """Replace each sign of mathematics that forms no value by ``≠``.

    Examples:
        >>> plain_signs("∃7 · 2 ≤ 8")
        '≠7 · 2 ≤ 8'
    """
    return _FOREIGN.sub(
        lambda sign: (
            sign[0] if sign[0] in _KNOWN_SIGNS or unicodedata.category(sign[0]) != "Sm" else "≠"
        ),
        text,
    )


# Separators of the parts of an answer: x = 1, y = 2.
_PARTS = re.compile(
    r",|;|\\q?quad|\\text\s*\{[^{}]*\}|\b(?:and|or)\b|\\(?:lor|land|vee|cup)(?![A-Za-z])|\\\\|\n"
)
_EQUALS = re.compile(
    r"(?<![<>!\\])=|\\approx|≈|\\equiv|\\(?:[lL]ong)?[rR]ightarrow|\\to(?![A-Za-z])"
    r"|\\implies|\\iff|[\u2192\u21d2\u27f9]"
)
# Words and commands: their letters are no variables.
_TEXT = re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{[^{}]*\}|\\[A-Za-z]+")
# Values in the only equation of an answer, such as 2 * 3 = 12/2 = 6; an equation of a list has one.
_MOST_CHAINED = 3
# Signs of several values in a gold answer.
_SEVERAL = re.compile(r"[,;\n]|\\\\|\b(?:and|or)\b|\\(?:cup|lor|land|vee)(?![A-Za-z])")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))|\\[,;]")
# Words of prose: math-verify reads the last number of a sentence, such as a copied question.
_WORD = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}")
_NEIGHBOURS = re.compile(r"[A-Za-z]{2,}\s+[A-Za-z]{2,}")
_MOST_WORDS = 3
# Alternatives, several lines, a number after a per cent sign, an ellipsis, an operator at the end:
# math-verify reads only one of the values.
_EITHER = re.compile(
    r"\\(?:lor|vee|wedge|land)(?![A-Za-z])|\bor\b|\S\s*(?:\n|\\\\)\s*\S|%\s*[0-9]|\|\||\.\.\.|…"
    r"|(?:[-+*/^=_]|\\(?:cdot|times|div|pm|frac))\s*\Z"
)


def is_hedge(answer: str, gold: str) -> bool:
    r"""Return whether an answer does not commit itself to one value.

    Such an answer has one of these: alternatives, several lines, a number after a per cent sign, an
    ellipsis or an operator at the end, unless the gold answer has any of them; a list of values,
    unless the gold answer has one; prose, more than three words longer than the gold answer; more
    than three values in its only equation; or more than one value in an equation of a list.

    Args:
        answer: the answer as written.
        gold: the gold answer.

    Examples:
        >>> is_hedge(r"6 \lor 7", "7"), is_hedge("x=6=7, y=1", "7"), is_hedge("x=7", "7")
        (True, True, False)
        >>> is_hedge(r"6 \text{ m}, 7 m", r"7 \text{ m}"), is_hedge("6, 7", "7, 6")
        (True, False)
    """
    parts = _PARTS.split(answer)
    most = max(len(_constants(part)) for part in parts)
    chained = most > (_MOST_CHAINED if len(parts) == 1 else 1)
    either = bool(_EITHER.search(answer)) and not _EITHER.search(gold)
    listed = len(_values(answer)) > 1 and not _SEVERAL.search(gold)
    return chained or either or listed or _is_prose(answer, gold)


def _values(answer: str) -> set[str]:
    """Return the distinct entries with digits of a list without brackets: ``5 cm, 6 cm``."""
    entries, depth = [""], 0
    for character in _THOUSANDS.sub("", answer):
        depth += (character in "([{") - (character in ")]}")
        if character in ",;" and depth == 0:
            entries.append("")
        else:
            entries[-1] += character
    return {part.strip() for part in entries if re.search("[0-9]", part)}


def _is_prose(answer: str, gold: str) -> bool:
    """Return whether an answer is a sentence, such as the question itself."""
    plain = _TEXT.sub(" ", answer)
    more = len(_WORD.findall(plain)) - len(_WORD.findall(_TEXT.sub(" ", gold)))
    return more > _MOST_WORDS and bool(_NEIGHBOURS.search(plain))


def chain_values(answer: str) -> list[str]:
    r"""Return the values of a chain joined by ``=``; each of them must be right.

    An answer with fewer than two such values is returned whole.

    Examples:
        >>> chain_values("x=6=7"), chain_values(r"\frac{10}{4}=2.5"), chain_values("x=7")
        (['6', '7'], ['\\frac{10}{4}', '2.5'], ['x=7'])
    """
    values = _constants(answer)
    return values if len(values) > 1 else [answer]


def _constants(part: str) -> list[str]:
    """Return the sides of an equation that hold a value and no variable."""
    sides = _EQUALS.split(part)
    return [side for side in sides if len(sides) > 1 and _is_constant(side)]


def _is_constant(side: str) -> bool:
    has_value = re.search(r"[0-9]|\\pi", side)
    return has_value is not None and not re.search(r"[A-Za-z]", _TEXT.sub("", side))

"""Guards of symbolic answers: answers with several values instead of one."""

from __future__ import annotations

import re

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
_MOST_CLAIMS = 3
# Signs of several values in a gold answer.
_SEVERAL = re.compile(r"[,;\n]|\\\\|\b(?:and|or)\b|\\(?:cup|lor|land|vee)(?![A-Za-z])")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))|\\[,;]")
# Words of prose: math-verify reads the last number of a sentence, such as a copied question.
_WORD = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}")
_NEIGHBOURS = re.compile(r"[A-Za-z]{2,}\s+[A-Za-z]{2,}")
_MOST_WORDS = 3
# Alternatives, several lines, an operator at the end: math-verify reads only one of the values.
_EITHER = re.compile(
    r"\\(?:lor|vee|wedge|land)(?![A-Za-z])|\bor\b|\S\s*(?:\n|\\\\)\s*\S|%\s*[0-9]|\|\||\.\.\.|…"
    r"|(?:[-+*/^=_]|\\(?:cdot|times|div|pm|frac))\s*\Z"
)


def is_hedge(answer: str, gold: str) -> bool:
    r"""Return whether an answer leaves open which of several values it gives.

    Such an answer has alternatives, several lines, an operator at the end, a list of values or of
    equations with more than one value each, or more than three words of prose. Anything that the
    gold answer has too is allowed.

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
    chained = most > (_MOST_CLAIMS if len(parts) == 1 else 1)
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


def claims(answer: str) -> list[str]:
    r"""Return the values of a chain joined by ``=``; each of them must be right.

    Examples:
        >>> claims("x=6=7"), claims(r"\frac{10}{4}=2.5"), claims("x=7")
        (['6', '7'], ['\\frac{10}{4}', '2.5'], ['x=7'])
    """
    values = _constants(answer)
    return values if len(values) > 1 else [answer]


def _constants(part: str) -> list[str]:
    """Return the sides of an equation without a variable."""
    sides = _EQUALS.split(part)
    return [side for side in sides if len(sides) > 1 and _is_constant(side)]


def _is_constant(side: str) -> bool:
    has_value = re.search(r"[0-9]|\\pi", side)
    return has_value is not None and not re.search(r"[A-Za-z]", _TEXT.sub("", side))

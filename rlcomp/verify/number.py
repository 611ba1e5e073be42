r"""Numeric answers: the number that a response commits itself to (GSM8K)."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import zip_longest
from typing import Literal, NamedTuple

from rlcomp.verify.answers import Where, extract
from rlcomp.verify.math_text import plain_math
from rlcomp.verify.qualifiers import without_rounding, words_around

_PLACES: dict[str, Where] = {"<answer>": "tagged", r"\boxed{": "boxed"}
# The answer follows the last of these marks; the greedy dot finds it from the end in one pass.
_MARKED = re.compile(r"(?s:.*)(?:####|(?<!\w)A:|(?i:answer(?: is|:)))")
# A minus counts unless it is a subtraction; a comma counts between groups of three digits. No text
# matches in two ways, so that hostile input takes linear time.
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))+|[0-9]+)"
_NUMBER = re.compile(
    r"(?P<minus>(?<![\w)\]])-)?(?:(?P<mixed>[0-9]{1,9}) +(?=[0-9]{1,9}/[0-9]))?"
    rf"(?P<top>{_WHOLE}(?:\.[0-9]+)?|\.[0-9]+)"
    r"(?:[eE](?P<power>[+-]?[0-9]+)(?!\w))?(?: ?/ ?(?P<bottom>[0-9]+)(?!\.?[0-9]))?"
    r"(?P<scale>[kK]\b| {1,3}(?:hundred|thousand|million|billion)\b)?"
)
_SCALE = {
    "one": 1,
    "k": 10**3,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
}
# Longer numbers are refused: no answer needs them, and exact arithmetic on them is slow.
_MOST_DIGITS = 1000
# Most characters of an answer, and of the end of a text searched for its last number.
_LONGEST = 4000

# Between two numbers: an operator, perhaps after a unit. After them: the end of a calculation.
_UNIT = r"[ )%]*(?:[A-Za-z]+ ?){0,2}"
_OPERATOR = re.compile(rf"{_UNIT}[-+*/x][ (]*")
_EQUALS = re.compile(rf"{_UNIT}[=≈]")
# Between two numbers of a list: signs, and words that join alternatives.
_LIST = re.compile(r"(?:[\s,;:/|&~()\[\]=≈-]|\b(?:or|and|to|maybe|perhaps|either|vs)\b)*")
_LONGEST_GAP = 40  # characters that are read between two numbers, and before a number
# Text before a number that denies it, or makes it a bound.
_DENIED = re.compile(
    r"(?:[<>≤≥≠±~]\s*=?(?:\s*the\b)?|[\^_]|[!/]=|=/|\bnot|n't)[\s(\[*\"']*\Z|!\Z|\b0[xXbBoO]\Z"
)
# A calculation may round its result: 2/3 ≈ 0.67.
_ROUNDED = re.compile(r"(?:[0-9][ )%$A-Za-z]*)?≈[\s(\[*]*\Z")
# Text after a number: it begins a base, an exponent or a relation.
_RAISED = re.compile(
    r" ?[\^_⁰¹²³⁴-⁹₀-₉]|(?<=\b0)[xXbBoO][0-9A-Fa-f]|[\s)%]*(?:[<>≤≥≠±~]|[!/]=|=/)"
    r"|[\s)%]*\+(?!\s*(?:[-0-9($]|\.[0-9]))"
)
# Words beside one of several numbers.
_OR = re.compile(r"\b(?:or|either|infinity)\b|∞", re.IGNORECASE)


class _Term(NamedTuple):
    """A number at ``[start, end)`` of a text; its value is None if it is denied or qualified."""

    start: int
    end: int
    value: Fraction | None


def numeric(
    response: str,
    answer: str,
    *,
    where: Literal["marked", "last"] = "marked",
    absolute: float = 1e-6,
    relative: float = 0.0,
) -> float | None:
    r"""Return 1 if the number a response commits itself to is the answer's, else 0.

    ``|given - gold| <= max(absolute, relative * |gold|)``, exactly, in rational numbers. A response
    may round (``about 2.5``) if the gold number is not an integer.

    Args:
        response: text of the policy.
        answer: the gold answer, or a worked solution that ends in it; ``\frac12`` is a half.
        where: the place of the number in the response, see :func:`committed_number`.
        absolute: largest difference that still counts as equal.
        relative: the same, as a share of the gold number.

    Returns:
        1 or 0; None if the answer holds no single number.

    Source:
        Cobbe et al. 2021, arXiv:2110.14168, for the task.

    Examples:
        >>> numeric("#### 0.5", r"\frac12"), numeric("A: 6 or 7", "7"), numeric("7", "seven")
        (1.0, 0.0, None)
    """
    gold = _number(answer, "last", worded=True)
    if gold is None:
        return None
    if gold.denominator > 1:
        response = without_rounding(response)
    number = committed_number(response, where=where)
    within = max(Fraction(absolute), Fraction(relative) * abs(gold))
    return float(number is not None and abs(number - gold) <= within)


def committed_number(text: str, *, where: Literal["marked", "last"]) -> Fraction | None:
    r"""Return the number that a text gives as its answer, exactly; None if none or several.

    The answer is the content of ``<answer>`` or ``\boxed{}``, else the text after the last
    ``####``, ``A:``, ``answer is`` or ``answer:``. It must hold one number only, which may be
    repeated. The terms of a calculation that ends in ``=`` do not count (``6*7 = 42``), the links
    of a chain do (``x=6=7``).

    ``$``, units, a full stop and thousands commas do not matter, and neither does ``%``: 50% is 50.
    ``5.0`` is 5, ``1 1/2`` and ``1\frac12`` are 3/2, ``1.5e-3`` is 0.0015, ``5 million`` is
    5000000. A relation (``x < 5``), a denial, ``±``, powers, other bases and a decimal comma make
    no number, and neither do more than 4,000 characters.

    Args:
        text: a response or a worked solution; text before ``</think>`` is ignored.
        where: ``marked``: only a number in such a tag, box or place after a mark counts; ``last``:
            without any of them the last number of the text counts, unless another one is listed
            with it (``6 or 7``).

    Examples:
        >>> committed_number("18 - 5 = 13, so the answer is $1,234.50.", where="marked")
        Fraction(2469, 2)
        >>> committed_number("6 or 7", where="last") is None
        True
    """
    return _number(text, where, worded=False)


def _number(text: str, where: Literal["marked", "last"], *, worded: bool) -> Fraction | None:
    """Return the number of a text; ``worded`` (for gold answers) allows qualifying words."""
    answer = text.rpartition("</think>")[2]
    for sign, place in _PLACES.items():
        if sign in answer:
            content = extract(answer, place)
            return None if content is None else _single_value(content, worded)
    mark = _MARKED.match(answer)
    if mark is not None:
        return _single_value(answer[mark.end() :], worded)
    return _last_value(answer, worded) if where == "last" else None


def _single_value(text: str, worded: bool) -> Fraction | None:
    """Return the value that all numbers of a text share.

    None if they differ or there are none, if a word or a sign joins, denies or qualifies them, or
    if the text has more than 4,000 characters.
    """
    if len(text) > _LONGEST:
        return None
    text = plain_math(text)
    terms = _terms(text)
    values = {term.value for term in terms}
    if len(values) != 1 or _OR.search(text):
        return None
    if not worded and any(words_around(text, term.start, term.end, loose=True) for term in terms):
        return None
    return values.pop()


def _last_value(text: str, worded: bool) -> Fraction | None:
    """Return the last number of a text; None if another one is listed with it, or a word denies it.

    Only the last 4,000 characters are read.
    """
    text = plain_math(text[-_LONGEST:])
    terms = _terms(text)
    if not terms:
        return None
    last = terms[-1]
    listed = {last.value}
    for before, after in zip(terms[-2::-1], terms[:0:-1], strict=True):
        gap = text[before.end : after.start]
        if len(gap) > _LONGEST_GAP or not _LIST.fullmatch(gap):
            break
        listed.add(before.value)
    around = text[max(0, last.start - 4) : last.start] + " " + text[last.end : last.end + 5]
    if len(listed) > 1 or _OR.search(around):
        return None
    return (
        last.value if worded or not words_around(text, last.start, last.end, loose=False) else None
    )


def _terms(text: str) -> list[_Term]:
    """Return the numbers of a text, without the terms of calculations that end in ``=``."""
    numbers = list(_NUMBER.finditer(text))
    terms: list[_Term] = []
    calculation: list[_Term] = []  # terms joined by operators, or a number alone
    for match, after in zip_longest(numbers, numbers[1:]):
        calculation.append(_Term(match.start(), match.end(), _value(text, match)))
        gap = text[match.end() : after.start() if after else None][:_LONGEST_GAP]
        if after and (_OPERATOR.fullmatch(gap) or (after["minus"] and not gap.strip(" ("))):
            continue
        terms += [] if len(calculation) > 1 and _EQUALS.match(gap) else calculation
        calculation = []
    return terms


def _value(text: str, match: re.Match[str]) -> Fraction | None:
    """Return the value of a number; None if the text around it denies, bounds or raises it."""
    before = text[max(0, match.start() - _LONGEST_GAP) : match.start()]
    rounded = _ROUNDED.search(before)
    if _DENIED.search(before) or (rounded and rounded[0].lstrip()[0] == "≈"):
        return None
    if _RAISED.match(text, match.end()) or len(match[0]) > _MOST_DIGITS:
        return None
    power, bottom = int(match["power"] or 0), int(match["bottom"] or 1)
    if bottom == 0 or abs(power) > _MOST_DIGITS:
        return None
    size = Fraction(match["top"].replace(",", "")) * Fraction(10) ** power / bottom
    size = (size + int(match["mixed"] or 0)) * _SCALE[(match["scale"] or "one").strip().lower()]
    return -size if match["minus"] else size

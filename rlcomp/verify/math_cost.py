"""Guards of symbolic answers: what takes a computer algebra system too long."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

# Sizes of an answer that are allowed whatever the gold answer is.
_LENGTH, _DIGITS, _DEPTH, _BRACKETS, _FUNCTIONS = 512, 200, 6, 24, 16
_LARGEST_FACTORIAL = 200
# Of a plain number, and of anything else.
_EXPONENT_OF_NUMBER, _EXPONENT = 1000, 10
# Of the expression: terms when it is multiplied out; sin(sin(x)) is 2 functions deep.
_TERMS, _NESTED_FUNCTIONS = 200, 4

_FUNCTION = re.compile(r"\\(?!left|right|[dt]?frac|text|mathrm|cdot|times)[A-Za-z]+")
# Evaluated whatever they cost, or absorbing whatever they are compared with.
_COSTLY = re.compile(
    r"\\(?:sum|prod|i*o?int|lim|limsup|liminf|[dt]?binom|choose|Gamma|gamma|zeta|Zeta|det|big\w*"
    r"|[dt]?frac\s*\{\s*d|partial|nabla|uparrow|operatorname|[bp]?mod|infty|infinity|lfloor|lceil)"
    r"|[∞∑∏∫⌊⌈]|(?<![A-Za-z\\])(?:oo|nan|NaN|zoo|inf|infinity)(?![A-Za-z])"
)
_FACTORIAL = re.compile(r"(?:(?<![0-9A-Za-z])([0-9]{1,9}|[A-Za-z]))?\s*!(\s*[!^(\[{])?")
_POWER = re.compile(r"\^|\*\*")
# In front of an exponent; one without braces, and what makes it larger.
_BEFORE = re.compile(
    r"(?:[\s~+-]|\\[,;:! ]|\\(?:left|[dtc]?frac|sqrt|text|math\w+|displaystyle|textstyle)\b)*"
)
_BARE = re.compile(r"([0-9]+(?=(\s*(?:\^|\*\*|!))?)|.?)", re.DOTALL)


def costs(answer: str, gold: str) -> bool:
    r"""Whether an answer may take long to parse or to simplify.

    Too long, too many digits, nested too deeply; a tower of powers, a large factorial, a sum, an
    integral, a limit, an infinity. What the gold answer has itself is allowed.

    Args:
        answer: as it was written.
        gold: the answer that it is compared with.

    Examples:
        >>> costs("9^{9^9}", "1"), costs("2^{2024}", "2^{2024}"), costs(r"\sum_{k=1}^n k", "7")
        (True, False, True)
    """
    return any(check(answer, gold) for check in (_large, _evaluated, _factorial, _power))


def _large(answer: str, gold: str) -> bool:
    allowed = (_LENGTH, _DIGITS, _DEPTH, _BRACKETS, _FUNCTIONS)
    sizes = zip(_sizes(answer), allowed, _sizes(gold), strict=True)
    return any(size > max(most, own) for size, most, own in sizes)


def _sizes(text: str) -> tuple[int, ...]:
    """Characters, digits, deepest nesting, brackets and functions of a text."""
    depth = deepest = brackets = 0
    for character in text:
        brackets += character in "([{"
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    digits = sum(character.isdigit() for character in text)
    return len(text), digits, deepest, brackets, len(_FUNCTION.findall(text))


def _evaluated(answer: str, gold: str) -> bool:
    return not set(_COSTLY.findall(answer)) <= set(_COSTLY.findall(gold))


def _factorial(answer: str, gold: str) -> bool:
    for found in _FACTORIAL.finditer(answer.replace(r"\!", "").replace("!=", "")):
        of = found[1]
        if of is None or found[2] or (of.isdigit() and int(of) > _LARGEST_FACTORIAL):
            return found[0] not in gold
    return False


def _power(answer: str, gold: str) -> bool:
    if any(_is_too_large(p.base, p.exponent) for p in _powers(answer) if p.exponent not in gold):
        return True
    return _reach(answer) > max(_EXPONENT_OF_NUMBER, _reach(gold))


class _Power(NamedTuple):
    """A power: its base as far as it is a number, its exponent, in braces as it is written."""

    base: str
    exponent: str
    base_end: int
    end: int


def _powers(text: str) -> Iterator[_Power]:
    for sign in _POWER.finditer(text):
        head = text[: sign.start()].rstrip()
        base = head[len(head.rstrip("0123456789")) :]
        exponent, end = _exponent(text, sign.end())
        yield _Power(base, exponent, len(head), end)


def _exponent(text: str, start: int) -> tuple[str, int]:
    """What stands behind a sign of a power, with a sign behind it, and where it ends."""
    before = _BEFORE.match(text, start)
    start = before.end() if before else start
    group = _group(text[start:])
    if before and "frac" in before[0]:
        group += _group(text[start + len(group) :])
    if group:
        return group, start + len(group)
    bare = _BARE.match(text, start)
    return (bare[1] + (bare[2] or ""), bare.end()) if bare else ("", start)


def _reach(text: str) -> float:
    """The largest product of stacked exponents: 6 of ``(x^2)^3``, infinite of ``x^2^3``."""
    reach: dict[int, float] = {}
    for power in _powers(text):
        end = power.base_end
        start = _opening(text, end)
        below = max((size for at, size in reach.items() if start < at <= end), default=1.0)
        over = math.inf if end in reach else below * max(1, _size(power.exponent))
        reach[power.end] = max(over, reach.get(power.end, 0.0))
    return max(reach.values(), default=1.0)


def _opening(text: str, end: int) -> int:
    """Where the bracket opens that closes before ``end``; ``end`` where none does."""
    depth = 0
    for place in range(end - 1, -1, -1):
        depth += (text[place] in ")]}") - (text[place] in "([{")
        if depth <= 0:
            return place if place < end - 1 else end
    return 0


def _group(text: str) -> str:
    """The bracket with which a text begins, to its end; nothing if it begins otherwise."""
    depth = 0
    for size, character in enumerate(text, 1):
        depth += (character in "{(") - (character in "})")
        if depth <= 0:
            return text[:size] if size > 1 else ""
    return text


def _is_too_large(base: str, exponent: str) -> bool:
    limit = _EXPONENT_OF_NUMBER if base else _EXPONENT
    return _size(exponent) > limit or bool(re.search(r"\^|\*\*|!", exponent))


def _size(exponent: str) -> int:
    """At most what the numbers of an exponent come to."""
    numbers = [int(number) for number in re.findall(r"[0-9]+", exponent)]
    return max(math.prod(numbers), sum(numbers))


def is_large(expression: object, gold: object) -> bool:
    """Whether an expression takes long to simplify: many terms, or functions of functions.

    Args:
        expression: of sympy, not evaluated.
        gold: what it is compared with, which may be as large.
    """
    most, deepest = max(_TERMS, _terms(gold)), max(_NESTED_FUNCTIONS, _nested(gold))
    return _terms(expression) > most or _nested(expression) > deepest


def _terms(expression: object) -> int:
    """How many terms the expression has when all is multiplied out, above or below its line."""
    return max(_fraction(expression))


def _fraction(expression: Any) -> tuple[int, int]:  # noqa: ANN401 - of sympy
    """How many terms stand above and below the line, over a common denominator."""
    parts = [_fraction(part) for part in getattr(expression, "args", ())]
    below = math.prod(under for _, under in parts)
    if type(expression).__name__ == "Mul":
        return math.prod(over for over, _ in parts), below
    exponent: Any = getattr(expression, "exp", None)
    if type(expression).__name__ == "Pow" and getattr(exponent, "is_Integer", False):
        power = min(abs(int(exponent)), _EXPONENT_OF_NUMBER)
        over, under = (math.comb(terms + power - 1, power) for terms in parts[0])
        return (over, under) if exponent >= 0 else (under, over)
    if type(expression).__name__ == "Add":
        return sum(over * below // under for over, under in parts), below
    return max(1, sum(map(max, parts))), 1


def _nested(expression: object) -> int:
    """How deep functions stand within functions."""
    inner = max(map(_nested, getattr(expression, "args", ())), default=0)
    return inner + bool(getattr(expression, "is_Function", False))

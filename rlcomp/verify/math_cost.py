"""Guards against formulas that a computer algebra system takes too long to parse or simplify."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

# Sizes of an answer that are allowed for every gold answer.
_LENGTH, _DIGITS, _DEPTH, _BRACKETS, _FUNCTIONS = 512, 200, 6, 24, 16
_LARGEST_FACTORIAL = 200
# Largest exponents of a plain number, and of any other base.
_EXPONENT_OF_NUMBER, _EXPONENT = 1000, 10
# Limits of the terms of the expanded expression and of nested functions: sin(sin(x)) has 2.
_TERMS, _NESTED_FUNCTIONS = 200, 4

_FUNCTION = re.compile(r"\\(?!left|right|[dt]?frac|text|mathrm|cdot|times)[A-Za-z]+")
# Commands that are always evaluated, and values such as infinity that absorb other terms.
_COSTLY = re.compile(
    r"\\(?:sum|prod|i*o?int|lim|limsup|liminf|[dt]?binom|choose|Gamma|gamma|zeta|Zeta|det|big\w*"
    r"|[dt]?frac\s*\{\s*d|partial|nabla|uparrow|operatorname|[bp]?mod|infty|infinity|lfloor|lceil)"
    r"|[∞∑∏∫⌊⌈]|(?<![A-Za-z\\])(?:oo|nan|NaN|zoo|inf|infinity)(?![A-Za-z])"
)
_FACTORIAL = re.compile(r"(?:(?<![0-9A-Za-z])([0-9]{1,9}|[A-Za-z]))?\s*!(\s*[!^(\[{])?")
_POWER = re.compile(r"\^|\*\*")
# Text between a power sign and its exponent.
_BEFORE = re.compile(
    r"(?:[\s~+-]|\\[,;:! ]|\\(?:left|[dtc]?frac|sqrt|text|math\w+|displaystyle|textstyle)\b)*"
)
# An exponent without braces, and a power or factorial sign after it.
_BARE = re.compile(r"([0-9]+(?=(\s*(?:\^|\*\*|!))?)|.?)", re.DOTALL)


def is_costly(answer: str, gold: str) -> bool:
    r"""Return whether an answer may take long to parse or to simplify.

    Such an answer is too long, has too many digits, brackets or functions, or is nested too deeply;
    or it has a tower of powers, a large exponent or factorial, a sum, an integral, a limit or an
    infinity. Anything that the gold answer has too is allowed.

    Args:
        answer: the answer as written.
        gold: the gold answer.

    Examples:
        >>> is_costly("9^{9^9}", "1"), is_costly("2^{2024}", "2^{2024}"), is_costly(r"\sum k", "7")
        (True, False, True)
    """
    return any(
        check(answer, gold)
        for check in (_has_large_size, _has_costly_command, _has_large_factorial, _has_large_power)
    )


def _has_large_size(answer: str, gold: str) -> bool:
    allowed = (_LENGTH, _DIGITS, _DEPTH, _BRACKETS, _FUNCTIONS)
    sizes = zip(_sizes(answer), allowed, _sizes(gold), strict=True)
    return any(size > max(limit, gold_size) for size, limit, gold_size in sizes)


def _sizes(text: str) -> tuple[int, ...]:
    """Count a text's characters, digits, deepest nesting, brackets and functions."""
    depth = deepest = brackets = 0
    for character in text:
        brackets += character in "([{"
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    digits = sum(character.isdigit() for character in text)
    return len(text), digits, deepest, brackets, len(_FUNCTION.findall(text))


def _has_costly_command(answer: str, gold: str) -> bool:
    return not set(_COSTLY.findall(answer)) <= set(_COSTLY.findall(gold))


def _has_large_factorial(answer: str, gold: str) -> bool:
    matches = _FACTORIAL.finditer(answer.replace(r"\!", "").replace("!=", ""))
    return any(_is_large_factorial(match) and match[0] not in gold for match in matches)


def _is_large_factorial(match: re.Match[str]) -> bool:
    """Return whether a factorial is of a formula, is nested or has a large operand."""
    operand = match[1]
    return operand is None or bool(
        match[2] or (operand.isdigit() and int(operand) > _LARGEST_FACTORIAL)
    )


def _has_large_power(answer: str, gold: str) -> bool:
    if any(_is_too_large(p.base, p.exponent) for p in _powers(answer) if p.exponent not in gold):
        return True
    return _largest_exponent(answer) > max(_EXPONENT_OF_NUMBER, _largest_exponent(gold))


class _Power(NamedTuple):
    """A power: the digits of its base, and its exponent as written, with its braces.

    ``base_end`` and ``end`` are the indices after the base and after the exponent.
    """

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
    """Return the exponent after a power sign, with a sign that follows it, and its end."""
    before = _BEFORE.match(text, start)
    start = before.end() if before else start
    group = _group(text[start:])
    if before and "frac" in before[0]:
        group += _group(text[start + len(group) :])
    if group:
        return group, start + len(group)
    bare = _BARE.match(text, start)
    return (bare[1] + (bare[2] or ""), bare.end()) if bare else ("", start)


def _largest_exponent(text: str) -> float:
    """Return the largest product of stacked exponents: 6 for ``(x^2)^3``, inf for ``x^2^3``."""
    products: dict[int, float] = {}
    for power in _powers(text):
        end = power.base_end
        start = _opening(text, end)
        inside = (size for power_end, size in products.items() if start < power_end <= end)
        below = max(inside, default=1.0)
        product = math.inf if end in products else below * max(1, _size(power.exponent))
        products[power.end] = max(product, products.get(power.end, 0.0))
    return max(products.values(), default=1.0)


def _opening(text: str, end: int) -> int:
    """Return the index of the bracket that is closed just before ``end``; else ``end``."""
    depth = 0
    for place in range(end - 1, -1, -1):
        depth += (text[place] in ")]}") - (text[place] in "([{")
        if depth <= 0:
            return place if place < end - 1 else end
    return 0


def _group(text: str) -> str:
    """Return the bracketed group at the beginning of a text; '' if there is none."""
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
    """Return an upper bound of an exponent: the larger of product and sum of its numbers."""
    numbers = [int(number) for number in re.findall(r"[0-9]+", exponent)]
    return max(math.prod(numbers), sum(numbers))


def is_large(expression: object, gold: object) -> bool:
    """Return whether an expression takes long to simplify: many terms or nested functions.

    Args:
        expression: an expression of sympy, not evaluated.
        gold: the gold expression; its size is always allowed.
    """
    most, deepest = max(_TERMS, _terms(gold)), max(_NESTED_FUNCTIONS, _nested(gold))
    return _terms(expression) > most or _nested(expression) > deepest


def _terms(expression: object) -> int:
    """Return the terms of the expanded numerator or denominator, the larger number."""
    return max(_fraction(expression))


def _fraction(expression: Any) -> tuple[int, int]:  # noqa: ANN401 - sympy has no types
    """Count the terms of numerator and denominator, over a common denominator."""
    parts = [_fraction(part) for part in getattr(expression, "args", ())]
    denominator = math.prod(bottom for _, bottom in parts)
    if type(expression).__name__ == "Mul":
        return math.prod(top for top, _ in parts), denominator
    exponent: Any = getattr(expression, "exp", None)
    if type(expression).__name__ == "Pow" and getattr(exponent, "is_Integer", False):
        power = min(abs(int(exponent)), _EXPONENT_OF_NUMBER)
        top, bottom = (math.comb(terms + power - 1, power) for terms in parts[0])
        return (top, bottom) if exponent >= 0 else (bottom, top)
    if type(expression).__name__ == "Add":
        return sum(top * denominator // bottom for top, bottom in parts), denominator
    return max(1, sum(map(max, parts))), 1


def _nested(expression: object) -> int:
    """Return how deeply functions are nested."""
    inner = max(map(_nested, getattr(expression, "args", ())), default=0)
    return inner + bool(getattr(expression, "is_Function", False))

"""Propositional formulas as Lean text, with truth tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import compress, product
from typing import TypeAlias

from rlcomp.errors import DataError

# An atom, or (connective, left, right). "¬A" is ("→", A, "False").
Formula: TypeAlias = "str | tuple[str, Formula, Formula]"

FALSE = "False"
# Binding power of each connective in Lean; all associate to the right.
_POWER = {"→": 25, "∨": 30, "∧": 35}
# Binding power of ¬.
_NOT_POWER = 40
_TOKEN = re.compile(r"\s*(False|[p-s]|[→∨∧¬()])")
# Limit on the characters of a formula, which also bounds the depth of the recursion.
_MAX_CHARACTERS = 256


def parse(text: str) -> Formula:
    """Return the formula of a text with atoms ``p`` to ``s``, ``False``, and Lean's ``¬ ∧ ∨ →``.

    Raises:
        DataError: the text is no formula, or longer than 256 characters.

    Examples:
        >>> parse("p∧q→¬p")
        ('→', ('∧', 'p', 'q'), ('→', 'p', 'False'))
    """
    if len(text) > _MAX_CHARACTERS:
        raise DataError(
            f"formula {text[:40]!r}... has {len(text)} characters: must have at most "
            f"{_MAX_CHARACTERS}"
        )
    tokens = [match[1] for match in _TOKEN.finditer(text)]
    if "".join(tokens) != "".join(text.split()):
        raise DataError(f"{text!r:.60} is no formula of p, q, r, s, False and ¬ ∧ ∨ → ( )")
    tokens.reverse()
    formula = _parse_binary(tokens, 0, text)
    if tokens:
        raise DataError(f"{text!r:.60} is no formula: it should end before {tokens[-1]!r}")
    return formula


def _parse_binary(tokens: list[str], power: int, text: str) -> Formula:
    """Return the longest formula whose connectives bind with at least ``power``.

    Args:
        tokens: remaining tokens in reverse order; the tokens of the formula are removed.
        power: smallest binding power.
        text: the whole text, for messages.
    """
    left = _parse_operand(tokens, text)
    while tokens and _POWER.get(tokens[-1], -1) >= power:
        sign = tokens.pop()
        left = (sign, left, _parse_binary(tokens, _POWER[sign], text))
    return left


def _parse_operand(tokens: list[str], text: str) -> Formula:
    """Return an atom, a negation or a formula in brackets, and remove its tokens."""
    token = tokens.pop() if tokens else ""
    if token == "¬":
        return ("→", _parse_binary(tokens, _NOT_POWER, text), FALSE)
    if token == "(":
        inner = _parse_binary(tokens, 0, text)
        if tokens and tokens.pop() == ")":
            return inner
        raise DataError(f"{text!r:.60} is no formula: a bracket is not closed")
    if not token or token in _POWER or token == ")":
        raise DataError(f"{text!r:.60} is no formula: an operand is missing")
    return token


def write(formula: Formula, power: int = 0) -> str:
    """Return a formula as Lean text, with the fewest brackets.

    Args:
        formula: parsed formula.
        power: binding power of the connective around the formula; a formula whose connective binds
            less gets brackets.

    Examples:
        >>> write(("→", ("→", "p", "q"), ("→", ("∧", "p", "r"), "False")))
        '(p→q)→¬(p∧r)'
    """
    if isinstance(formula, str):
        return formula
    sign, left, right = formula
    if sign == "→" and right == FALSE:
        return f"¬{write(left, _NOT_POWER)}"
    sign_power = _POWER[sign]
    text = f"{write(left, sign_power + 1)}{sign}{write(right, sign_power)}"
    return f"({text})" if sign_power < power else text


def atoms(formula: Formula) -> list[str]:
    """Return the atoms of a formula in order of occurrence, without ``False``.

    Examples:
        >>> atoms(parse("q∨p→¬q"))
        ['q', 'p']
    """
    return list(dict.fromkeys(atom for atom in _leaves(formula) if atom != FALSE))


def _leaves(formula: Formula) -> Iterator[str]:
    """Yield the atoms of a formula and ``False`` in order of occurrence."""
    if isinstance(formula, str):
        yield formula
    else:
        yield from _leaves(formula[1])
        yield from _leaves(formula[2])


def is_true(formula: Formula, true: frozenset[str]) -> bool:
    """Return whether a formula is true if exactly the atoms in ``true`` are true."""
    if isinstance(formula, str):
        return formula in true
    sign, left, right = formula
    if sign == "∧":
        return is_true(left, true) and is_true(right, true)
    if sign == "∨":
        return is_true(left, true) or is_true(right, true)
    return not is_true(left, true) or is_true(right, true)


def is_tautology(formula: Formula) -> bool:
    """Return whether a formula is true for all truth values of its atoms.

    Examples:
        >>> is_tautology(parse("((p→q)→p)→p")), is_tautology(parse("p→q"))
        (True, False)
    """
    names = atoms(formula)
    rows = product((False, True), repeat=len(names))
    return all(is_true(formula, frozenset(compress(names, row))) for row in rows)

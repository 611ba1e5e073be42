"""Propositional formulas as Lean text, with truth tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import compress, product
from typing import TypeAlias

from rlcomp.errors import DataError

# An atom, or (connective, left, right). "not A" is A -> False.
Formula: TypeAlias = "str | tuple[str, Formula, Formula]"

FALSE = "False"
# Binding power of Lean's connectives; all associate to the right.
_POWER = {"→": 25, "∨": 30, "∧": 35}
_NOT = 40
_TOKEN = re.compile(r"\s*(False|[p-s]|[→∨∧¬()])")
# Most characters, which also bound the nesting, so that no recursion overflows.
_LONGEST = 256


def parse(text: str) -> Formula:
    """Parse a formula with atoms ``p`` to ``s``, ``False``, and Lean's ``¬ ∧ ∨ →``.

    Raises:
        DataError: the text is no formula, or longer than 256 characters.

    Examples:
        >>> parse("p∧q→¬p")
        ('→', ('∧', 'p', 'q'), ('→', 'p', 'False'))
    """
    if len(text) > _LONGEST:
        raise DataError(f"formula {text[:40]!r}... has {len(text)} characters: at most {_LONGEST}")
    tokens = [match[1] for match in _TOKEN.finditer(text)]
    if "".join(tokens) != "".join(text.split()):
        raise DataError(f"{text!r:.60} is no formula of p, q, r, s, False and ¬ ∧ ∨ → ( )")
    tokens.reverse()
    formula = _parsed(tokens, 0, text)
    if tokens:
        raise DataError(f"{text!r:.60} is no formula: {tokens[-1]!r} stands where it should end")
    return formula


def _parsed(tokens: list[str], power: int, text: str) -> Formula:
    """Parse a formula from the end of the token list, with connectives of at least ``power``."""
    left = _operand(tokens, text)
    while tokens and _POWER.get(tokens[-1], -1) >= power:
        sign = tokens.pop()
        left = (sign, left, _parsed(tokens, _POWER[sign], text))
    return left


def _operand(tokens: list[str], text: str) -> Formula:
    token = tokens.pop() if tokens else ""
    if token == "¬":
        return ("→", _parsed(tokens, _NOT, text), FALSE)
    if token == "(":
        inner = _parsed(tokens, 0, text)
        if tokens and tokens.pop() == ")":
            return inner
        raise DataError(f"{text!r:.60} is no formula: a bracket is not closed")
    if not token or token in _POWER or token == ")":
        raise DataError(f"{text!r:.60} is no formula: an operand is missing")
    return token


def write(formula: Formula, power: int = 0) -> str:
    """Return a formula as Lean text, with the fewest brackets.

    Args:
        formula: the formula.
        power: binding power of the connective around it.

    Examples:
        >>> write(("→", ("→", "p", "q"), ("→", ("∧", "p", "r"), "False")))
        '(p→q)→¬(p∧r)'
    """
    if isinstance(formula, str):
        return formula
    sign, left, right = formula
    if sign == "→" and right == FALSE:
        return f"¬{write(left, _NOT)}"
    own = _POWER[sign]
    text = f"{write(left, own + 1)}{sign}{write(right, own)}"
    return f"({text})" if own < power else text


def atoms(formula: Formula) -> list[str]:
    """Return the atoms of a formula in order of occurrence, without ``False``.

    Examples:
        >>> atoms(parse("q∨p→¬q"))
        ['q', 'p']
    """
    return list(dict.fromkeys(atom for atom in _leaves(formula) if atom != FALSE))


def _leaves(formula: Formula) -> Iterator[str]:
    if isinstance(formula, str):
        yield formula
    else:
        yield from _leaves(formula[1])
        yield from _leaves(formula[2])


def holds(formula: Formula, true: frozenset[str]) -> bool:
    """Return whether a formula is true if exactly these atoms are true."""
    if isinstance(formula, str):
        return formula in true
    sign, left, right = formula
    if sign == "∧":
        return holds(left, true) and holds(right, true)
    if sign == "∨":
        return holds(left, true) or holds(right, true)
    return not holds(left, true) or holds(right, true)


def is_tautology(formula: Formula) -> bool:
    """Return whether every line of the truth table is true.

    Examples:
        >>> is_tautology(parse("((p→q)→p)→p")), is_tautology(parse("p→q"))
        (True, False)
    """
    names = atoms(formula)
    lines = (compress(names, chosen) for chosen in product((False, True), repeat=len(names)))
    return all(holds(formula, frozenset(line)) for line in lines)

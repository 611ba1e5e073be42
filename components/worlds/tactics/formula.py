"""Propositional formulas: parsed from and written as Lean text, and judged by truth table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import compress, product
from typing import TypeAlias

from rlcomp.errors import DataError

# An atom, or (connective, left, right). Not A is A -> False.
Formula: TypeAlias = "str | tuple[str, Formula, Formula]"

FALSE = "False"
# Binding power of Lean's connectives; all associate to the right.
_POWER = {"→": 25, "∨": 30, "∧": 35}
_NOT = 40
_TOKEN = re.compile(r"\s*(False|[p-s]|[→∨∧¬()])")
# Characters; nesting is no deeper, so that no recursion overflows.
_LONGEST = 256


def parse(text: str) -> Formula:
    """The formula of a text: atoms ``p`` to ``s``, ``False``, and Lean's ``¬ ∧ ∨ →``.

    Raises:
        DataError: it is none, or longer than 256 characters.

    Examples:
        >>> parse("p∧q→¬p")
        ('→', ('∧', 'p', 'q'), ('→', 'p', 'False'))
    """
    if len(text) > _LONGEST:
        raise DataError(f"formula {text[:40]!r}... has {len(text)} characters: at most {_LONGEST}")
    tokens = [found[1] for found in _TOKEN.finditer(text)]
    if "".join(tokens) != "".join(text.split()):
        raise DataError(f"{text!r:.60} is no formula of p, q, r, s, False and ¬ ∧ ∨ → ( )")
    tokens.reverse()
    found = _parsed(tokens, 0, text)
    if tokens:
        raise DataError(f"{text!r:.60} is no formula: {tokens[-1]!r} stands where it should end")
    return found


def _parsed(tokens: list[str], power: int, text: str) -> Formula:
    """Read a formula whose connectives bind at least so strongly off the end of the list."""
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
    """A formula as Lean text, with the fewest brackets.

    Args:
        formula: which.
        power: what stands around it binds so strongly.

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
    told = f"{write(left, own + 1)}{sign}{write(right, own)}"
    return f"({told})" if own < power else told


def atoms(formula: Formula) -> list[str]:
    """The atoms of a formula, each once, as they come; ``False`` is none.

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
    """Whether a formula is true where these atoms are, and no others."""
    if isinstance(formula, str):
        return formula in true
    sign, left, right = formula
    if sign == "∧":
        return holds(left, true) and holds(right, true)
    if sign == "∨":
        return holds(left, true) or holds(right, true)
    return not holds(left, true) or holds(right, true)


def is_tautology(formula: Formula) -> bool:
    """Whether every line of its truth table is true.

    Examples:
        >>> is_tautology(parse("((p→q)→p)→p")), is_tautology(parse("p→q"))
        (True, False)
    """
    names = atoms(formula)
    lines = (compress(names, chosen) for chosen in product((False, True), repeat=len(names)))
    return all(holds(formula, frozenset(line)) for line in lines)

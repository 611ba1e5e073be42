"""Constraint satisfaction: an exact check of an assignment against constraints."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from rlcomp.errors import DataError

Value = int | str | bool

_OPERATORS: dict[type[ast.AST], Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_FUNCTIONS: dict[str, Callable[..., object]] = {
    "abs": abs,
    "sum": lambda *values: sum(values),
    "different": lambda *values: len(set(values)) == len(values),
    "implies": lambda premise, conclusion: bool(conclusion) or not premise,
}
# The largest integer in a computation.
_LARGEST = 10**12


def satisfied_share(
    assignment: object,
    variables: Mapping[str, Sequence[Value]],
    constraints: Sequence[str],
) -> float:
    """Return the share of constraints that an assignment satisfies; 0 if it is invalid.

    A valid assignment gives each variable, and nothing else, a value of its domain.

    Args:
        assignment: a value for each variable, from JSON.
        variables: the domain of each variable.
        constraints: expressions such as ``a + b == 10``, ``different(a, b, c)``,
            ``implies(a == 1, b > 2)``, ``(ann == "knight") == (bob == "knave")``: variables,
            integers and texts, ``+ - * %``, comparisons, ``and``, ``or``, ``not``, ``abs``,
            ``sum``, ``different``, ``implies``.

    Raises:
        DataError: a constraint is no such expression, or there are no constraints. Names, operators
            and types are checked only where a valid assignment is computed.

    Examples:
        >>> domains = {"a": [1, 2, 3], "b": [1, 2, 3]}
        >>> satisfied_share({"a": 1, "b": 3}, domains, ["a + b == 4", "a > b"])
        0.5
    """
    if not constraints:
        raise DataError("there are no constraints, so that every assignment would satisfy them")
    compiled = [_compile(text) for text in constraints]
    if not isinstance(assignment, dict) or assignment.keys() != variables.keys():
        return 0.0
    if not all(_is_among(value, variables[name]) for name, value in assignment.items()):
        return 0.0
    return sum(_is_met(tree, assignment, text) for tree, text in compiled) / len(compiled)


def _is_among(value: object, domain: Sequence[Value]) -> bool:
    """Return whether a value is in a domain; 1, True and 1.0 are different values."""
    return any(type(value) is type(member) and value == member for member in domain)


@lru_cache(maxsize=4096)
def _compile(text: str) -> tuple[ast.expr, str]:
    try:
        return ast.parse(text, mode="eval").body, text
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"the constraint {text!r:.200} is no expression: {error}") from error


def _is_met(tree: ast.expr, values: Mapping[str, Value], text: str) -> bool:
    try:
        return bool(_value(tree, values, text))
    except ZeroDivisionError:  # by %
        return False
    except (TypeError, RecursionError) as error:
        raise DataError(f"the constraint {text!r:.200} cannot be computed: {error}") from error


def _value(tree: ast.expr, values: Mapping[str, Value], text: str) -> object:
    """Return the value of an expression; refuse nodes other than the cases here."""
    match tree:
        case ast.Constant(value=int() | str() as value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(part, values, text) for part in parts))
        case ast.BoolOp(op=op, values=parts):
            combine = all if isinstance(op, ast.And) else any
            return combine(_value(part, values, text) for part in parts)
        case ast.UnaryOp() | ast.BinOp() | ast.Compare():
            return _compute(tree, values, text)
    raise DataError(
        f"the constraint {text!r:.200} has {ast.unparse(tree)!r:.60}, which is neither a variable "
        f"nor known: use + - * %, comparisons, and, or, not, {', '.join(_FUNCTIONS)}"
    )


def _compute(
    tree: ast.UnaryOp | ast.BinOp | ast.Compare, values: Mapping[str, Value], text: str
) -> object:
    ops = tree.ops if isinstance(tree, ast.Compare) else [tree.op]
    for op in ops:
        if type(op) not in _OPERATORS:
            raise DataError(f"the constraint {text!r:.200} has the operator {type(op).__name__}")
    functions = [_OPERATORS[type(op)] for op in ops]
    match tree:
        case ast.UnaryOp(operand=operand):
            return functions[0](_value(operand, values, text))
        case ast.BinOp(left=left, right=right):
            sides = [_number(_value(side, values, text), text) for side in (left, right)]
            return functions[0](*sides)
        case ast.Compare(left=left, comparators=others):
            terms = [_value(side, values, text) for side in (left, *others)]
            pairs = zip(functions, pairwise(terms), strict=True)
            return all(relation(*pair) for relation, pair in pairs)
    raise AssertionError(tree)


def _number(value: object, text: str) -> int:
    if isinstance(value, int) and abs(value) <= _LARGEST:
        return value
    raise DataError(
        f"the constraint {text!r:.200} computes with {value!r:.40}, which is no whole number of at "
        f"most {_LARGEST}"
    )

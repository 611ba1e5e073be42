"""Tool that evaluates arithmetic expressions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction

from rlcomp.interfaces.tool import ToolError

_MAX_CHARACTERS = 200
# Largest number of digits of the numerator and of the denominator of a value.
_MAX_DIGITS = 100

_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Calculator:
    """Tool that returns the exact value of an expression of numbers with ``+ - * / ( )``.

    An integer value is written as an integer, another value as a fraction. The tool has no state.

    Examples:
        >>> Calculator()("7*8-1"), Calculator()("1/3 + 1/6")
        ('55', '1/2')
    """

    def __call__(self, query: str) -> str:
        """Return the value of an expression.

        Raises:
            ToolError: the query is no such expression, has more than 200 characters, divides by 0,
                or has a value with more than 100 digits.
        """
        if len(query) > _MAX_CHARACTERS:
            raise ToolError(f"more than {_MAX_CHARACTERS} characters")
        try:
            value = _evaluate(ast.parse(query.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ToolError("no expression of numbers with + - * / ( )") from error
        except ZeroDivisionError as error:
            raise ToolError("division by 0") from error
        return str(value)


def _evaluate(node: ast.expr) -> Fraction:
    """Return the exact value of a syntax tree of numbers and operators."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _check_size(Fraction(str(node.value)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _check_size(_OPERATIONS[type(node.op)](_evaluate(node.left), _evaluate(node.right)))
    raise ValueError


def _check_size(value: Fraction) -> Fraction:
    """Return a value unless it has too many digits."""
    if max(abs(value.numerator), value.denominator) >= 10**_MAX_DIGITS:
        raise ToolError(f"more than {_MAX_DIGITS} digits")
    return value

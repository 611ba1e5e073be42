"""Calculator tool."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction

from rlcomp.interfaces.tool import ToolError

_LONGEST = 200
# Most digits that numerator or denominator of a result may have.
_MOST_DIGITS = 100

_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Calculator:
    """Answers an expression of numbers with ``+ - * / ( )``, exactly.

    A whole result is written as an integer, any other as a fraction. It has no state.

    Examples:
        >>> Calculator()("7*8-1"), Calculator()("1/3 + 1/6")
        ('55', '1/2')
    """

    def __call__(self, query: str) -> str:
        """Return the value of an expression.

        Raises:
            ToolError: it is no such expression, divides by 0, or has more than 100 digits.
        """
        if len(query) > _LONGEST:
            raise ToolError(f"more than {_LONGEST} characters")
        try:
            value = _value(ast.parse(query.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ToolError("no expression of numbers with + - * / ( )") from error
        except ZeroDivisionError as error:
            raise ToolError("division by 0") from error
        return str(value)


def _value(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _short(Fraction(str(node.value)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _short(_OPERATIONS[type(node.op)](_value(node.left), _value(node.right)))
    raise ValueError


def _short(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) >= 10**_MOST_DIGITS:
        raise ToolError(f"more than {_MOST_DIGITS} digits")
    return value

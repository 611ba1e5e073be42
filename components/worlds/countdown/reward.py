"""Countdown verifier of expressions."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

from rlcomp.errors import DataError
from rlcomp.interfaces.reward import TextReward

# Only these characters are parsed, so that there are no names, calls or towers of powers.
_EXPRESSION = re.compile(r"[0-9+\-*/() ]{1,200}")
_PUZZLE = re.compile(r"(?<![0-9])(?<![0-9] )([0-9]+(?: [0-9]+)*):([0-9]+)=\s*\Z")


class CountdownReward(TextReward):
    """Reward 1 if the response is an expression of the target with the prompt's numbers, else 0.

    The whole response must be the expression: integers, ``+ - * /``, parentheses and spaces, at
    most 200 characters, with each given number exactly once. It is evaluated exactly. Signs are
    refused, as in ``-3+5``.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``countdown``.
    """

    name = "countdown"

    def __init__(self) -> None:
        super().__init__()

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return 1 if the expression is correct, else 0.

        Raises:
            DataError: the prompt is no puzzle ``3 7 2:13=``.
        """
        puzzle = _PUZZLE.search(prompt)
        if puzzle is None:
            raise DataError(
                "the countdown reward needs prompts that end in '3 7 2:13=', not "
                f"{prompt[-60:]!r}; use task=countdown or another reward"
            )
        tree = _parsed(response.strip())
        if tree is None or not _uses(tree, [int(number) for number in puzzle[1].split()]):
            return 0.0
        return float(_value(tree) == int(puzzle[2]))


def _parsed(text: str) -> ast.expr | None:
    """Return the syntax tree of an expression; None if the text is not an allowed expression."""
    if not _EXPRESSION.fullmatch(text) or "**" in text or "//" in text:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _uses(tree: ast.expr, numbers: list[int]) -> bool:
    """Return whether the tree combines exactly these numbers with binary operators only."""
    nodes = list(ast.walk(tree))
    allowed = (ast.Constant, ast.BinOp, ast.operator)
    if not all(isinstance(node, allowed) for node in nodes):
        return False
    used = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return sorted(map(str, used)) == sorted(map(str, numbers))


def _value(tree: ast.expr) -> Fraction | None:
    """Return the exact value; None at a division by 0."""
    if isinstance(tree, ast.Constant):
        return Fraction(str(tree.value))
    assert isinstance(tree, ast.BinOp)
    left, right = _value(tree.left), _value(tree.right)
    if left is None or right is None:
        return None
    match tree.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
    return left / right if right else None

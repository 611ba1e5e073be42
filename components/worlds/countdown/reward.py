"""Verifier of the expressions of countdown puzzles."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

from rlcomp.errors import DataError
from rlcomp.interfaces.reward import TextReward

# Only these characters are parsed, so that there are no names, calls or towers of powers.
_EXPRESSION = re.compile(r"[0-9+\-*/() ]{1,200}")
# The puzzle at the end of a prompt, "3 7 2:13="; its first number follows no digit or number.
_PUZZLE = re.compile(r"(?<![0-9])(?<![0-9] )([0-9]+(?: [0-9]+)*):([0-9]+)=\s*\Z")


class CountdownReward(TextReward):
    """Reward 1 if the response combines the prompt's numbers to the prompt's target, else 0.

    The response must be the expression alone: integers, ``+ - * /``, parentheses and spaces, at
    most 200 characters, with each number of the prompt exactly once. Its value must equal the
    target in exact arithmetic. Signs are refused: ``-3+5`` gets 0.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``countdown``.
    """

    name = "countdown"

    def __init__(self) -> None:
        super().__init__()

    def score(self, prompt: str, response: str, answer: str) -> float:
        """Return 1 if the response is a correct expression, else 0.

        Raises:
            DataError: the prompt does not end in a puzzle such as ``3 7 2:13=``.
        """
        puzzle = _PUZZLE.search(prompt)
        if puzzle is None:
            raise DataError(
                "the countdown reward needs prompts that end in '3 7 2:13=', not "
                f"{prompt[-60:]!r}; use task=countdown or another reward"
            )
        tree = _parse_expression(response.strip())
        numbers = [int(number) for number in puzzle[1].split()]
        if tree is None or not _combines_numbers(tree, numbers):
            return 0.0
        return float(_evaluate(tree) == int(puzzle[2]))


def _parse_expression(text: str) -> ast.expr | None:
    """Return the syntax tree of an expression; None if the text is not an allowed expression."""
    if not _EXPRESSION.fullmatch(text) or "**" in text or "//" in text:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _combines_numbers(tree: ast.expr, numbers: list[int]) -> bool:
    """Return whether the tree combines exactly these numbers with binary operators only."""
    nodes = list(ast.walk(tree))
    allowed = (ast.Constant, ast.BinOp, ast.operator)
    if not all(isinstance(node, allowed) for node in nodes):
        return False
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return sorted(map(str, constants)) == sorted(map(str, numbers))


def _evaluate(tree: ast.expr) -> Fraction | None:
    """Return the exact value of an expression; None if it divides by 0."""
    if isinstance(tree, ast.Constant):
        return Fraction(str(tree.value))
    assert isinstance(tree, ast.BinOp)
    left, right = _evaluate(tree.left), _evaluate(tree.right)
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

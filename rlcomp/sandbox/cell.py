"""Notebook cells: programs that print the value of their last expression."""

from __future__ import annotations

_CELL = """\
import ast
tree = ast.parse({source!r}, "<cell>")
last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
names = {{"__name__": "__main__"}}
exec(compile(tree, "<cell>", "exec"), names)
value = last and eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
if value is not None:
    print(repr(value))
"""


def as_cell(source: str) -> str:
    """Return a program that runs source text and prints its last expression's value unless None.

    Examples:
        >>> exec(as_cell("x = 7; x * 8"), {})
        56
    """
    return _CELL.format(source=source)

"""Literal class attributes, read from source; ``*Base.writes`` and names are followed."""

from __future__ import annotations

import ast
from functools import cache
from typing import Any

from rlcomp.config.source import alias, bindings, find, lineage
from rlcomp.errors import ConfigError

# How many names lead on to others, how deep it is nested, and how much a declaration holds.
_FARTHEST, _DEEPEST, _LARGEST = 8, 32, 10_000


@cache
def assigned(cls: ast.ClassDef) -> dict[str, ast.expr | None]:
    """Return the last value of each name in a class body; None if it is no plain assignment."""
    return {name: value for line in cls.body for name, value in bindings(line)}


def literal(home: str, node: ast.expr | None) -> Any:  # noqa: ANN401
    """Return the value of an expression of literals and of other classes' literal attributes.

    Args:
        home: the module it stands in.
        node: the expression.

    Raises:
        ValueError: it is something else, or too large.
        TypeError: it unpacks what holds nothing, or has a key that cannot be one.
    """
    return _LiteralReader().read(home, node, 0, 0)


class _LiteralReader:
    """Reads one declaration, as far as its size allows."""

    def __init__(self) -> None:
        self.left = _LARGEST

    def _spend(self, items: int) -> None:
        self.left -= items
        if self.left < 0:
            raise ValueError(f"more than {_LARGEST} items")

    def read(self, home: str, node: ast.expr | None, names: int, depth: int) -> Any:  # noqa: ANN401
        self._spend(1)
        if names > _FARTHEST or depth > _DEEPEST:
            raise ValueError("names that lead in a circle, or too deep a nesting")
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            items = tuple(i for each in node.elts for i in self._items(home, each, names, depth))
            return frozenset(items) if isinstance(node, ast.Set) else items
        if isinstance(node, ast.Dict):
            return self._dict(home, node, names, depth + 1)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._attribute(home, node.value.id, node.attr, names + 1)
        if isinstance(node, ast.Name):
            meant = alias(home, node.id)
            if meant is None:
                raise ValueError(f"{node.id} cannot be followed")
            return self.read(*meant, names + 1, 0)
        return _constant(node)

    def _items(self, home: str, element: ast.expr, names: int, depth: int) -> tuple[Any, ...]:
        if isinstance(element, ast.Starred):
            items = tuple(self.read(home, element.value, names, depth + 1))
            self._spend(len(items))
            return items
        return (self.read(home, element, names, depth + 1),)

    def _dict(self, home: str, node: ast.Dict, names: int, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.read(home, value, names, depth)
            if key is None:
                inner = dict(inner)
                self._spend(len(inner))
                found |= inner
            else:
                found[self.read(home, key, names, depth)] = inner
        return found

    def _attribute(self, home: str, owner: str, name: str, names: int) -> Any:  # noqa: ANN401
        """Return an attribute of a class that a module defines or imports, its bases' included."""
        try:
            definition = find(home, owner)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if definition is None or not isinstance(definition[1], ast.ClassDef):
            raise ValueError(f"{owner} cannot be followed")
        for place, cls in lineage(definition[0], definition[1]):
            if name in assigned(cls):
                return self.read(place, assigned(cls)[name], names, 0)
        raise ValueError(f"{owner} has no {name}")


def _constant(node: ast.expr | None) -> Any:  # noqa: ANN401
    """Return a constant, perhaps with a sign."""
    minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if minus and isinstance(node, ast.UnaryOp) else node
    if not isinstance(inner, ast.Constant):
        raise ValueError("no literal")
    value = inner.value
    # Python itself refuses to print a larger one.
    if isinstance(value, int) and value.bit_length() > 64:
        raise ValueError("too large a number")
    return -value if minus and isinstance(value, (int, float)) else value

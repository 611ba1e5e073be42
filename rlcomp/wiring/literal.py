"""Literal class attributes, evaluated from source; ``*Base.writes`` and names are followed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from rlcomp.errors import ConfigError
from rlcomp.wiring.source import alias, find, lineage


def assigned(cls: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The attributes that a class body assigns, in order."""
    for line in cls.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            if line.value is not None:
                yield line.target.id, line.value
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            yield line.targets[0].id, line.value


def literal(home: str, node: ast.expr, depth: int = 0) -> Any:  # noqa: ANN401
    """The value of an expression of literals and of other classes' literal attributes.

    Args:
        home: the module it stands in.
        node: the expression.
        depth: how many names were followed on the way to it.

    Raises:
        ValueError: it is something else.
    """
    if depth > 8:
        raise ValueError("names that lead in a circle")
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(item for element in node.elts for item in _items(home, element, depth))
    if isinstance(node, ast.Dict):
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner = literal(home, value, depth)
            found |= dict(inner) if key is None else {literal(home, key, depth): inner}
        return found
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _attribute(home, node.value.id, node.attr, depth + 1)
    if isinstance(node, ast.Name):
        meant = alias(home, node.id)
        if meant is None:
            raise ValueError(f"{node.id} cannot be followed")
        return literal(*meant, depth + 1)
    return ast.literal_eval(node)


def _items(home: str, element: ast.expr, depth: int) -> tuple[Any, ...]:
    if isinstance(element, ast.Starred):
        return tuple(literal(home, element.value, depth))
    return (literal(home, element, depth),)


def _attribute(home: str, owner: str, name: str, depth: int) -> Any:  # noqa: ANN401
    """An attribute of a class that a module defines or imports, its bases' included."""
    try:
        found = find(home, owner)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    if found is None or not isinstance(found[1], ast.ClassDef):
        raise ValueError(f"{owner} cannot be followed")
    for place, cls in lineage(found[0], found[1]):
        values = [value for known, value in assigned(cls) if known == name]
        if values:
            return literal(place, values[-1], depth)
    raise ValueError(f"{owner} has no {name}")

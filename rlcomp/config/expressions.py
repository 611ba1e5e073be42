"""Literals and annotations of a source file, read without executing it.

A literal may name other literals and class attributes, ``*Base.writes``. An annotation may use the
names of :data:`rlcomp.arguments.VOCABULARY`, a module's aliases of such expressions, containers,
``Literal``, ``Annotated`` with bounds, and ``|``; anything else is ``Any``, and its values are
checked once the class is imported.
"""

from __future__ import annotations

import ast
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Union

from rlcomp.arguments import VOCABULARY, Ge, Gt, Interval, Le, Lt, MinLen
from rlcomp.config.bases import lineage
from rlcomp.config.source import alias, bindings, find
from rlcomp.errors import ConfigError

_GENERICS: tuple[Any, ...] = (list, dict, tuple, Sequence, Mapping, Union)
_BOUNDS: dict[str, Callable[..., Any]] = {
    "Ge": Ge,
    "Gt": Gt,
    "Le": Le,
    "Lt": Lt,
    "Interval": Interval,
    "MinLen": MinLen,
}
# Limits for hostile sources; real classes stay far below them: depth of nesting, length of a chain
# of names, items of a literal, and syntax nodes of an annotation.
_MAX_DEPTH, _MAX_NAMES, _MAX_ITEMS, _MAX_NODES = 32, 8, 10_000, 500


@cache
def assigned_values(cls: ast.ClassDef) -> dict[str, ast.expr | None]:
    """Return the last value of each name in a class body; None if it is no plain assignment."""
    return {name: value for line in cls.body for name, value in bindings(line)}


def read_literal(home: str, node: ast.expr | None) -> Any:  # noqa: ANN401
    """Return the value of an expression of literals and of other classes' literal attributes.

    A list becomes a tuple, a set a frozenset.

    Args:
        home: module of the expression.
        node: the expression.

    Raises:
        ValueError: the expression is something else, or too large.
        TypeError: the expression unpacks a value that is not a container, or has a key that cannot
            be hashed.
    """
    return _LiteralReader().read(home, node, 0, 0)


class _LiteralReader:
    """Reads one literal of limited size."""

    def __init__(self) -> None:
        self.remaining_items = _MAX_ITEMS

    def _count_items(self, items: int) -> None:
        self.remaining_items -= items
        if self.remaining_items < 0:
            raise ValueError(f"more than {_MAX_ITEMS} items")

    def read(self, home: str, node: ast.expr | None, names: int, depth: int) -> Any:  # noqa: ANN401
        """Return the value of an expression.

        Args:
            home: module of the expression.
            node: the expression.
            names: number of names that led to this expression.
            depth: number of containers around it.
        """
        self._count_items(1)
        if names > _MAX_NAMES or depth > _MAX_DEPTH:
            raise ValueError("names that lead in a circle, or too deep a nesting")
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            items = tuple(i for each in node.elts for i in self._items(home, each, names, depth))
            return frozenset(items) if isinstance(node, ast.Set) else items
        if isinstance(node, ast.Dict):
            return self._dict(home, node, names, depth + 1)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._attribute(home, node.value.id, node.attr, names + 1)
        if isinstance(node, ast.Name):
            definition = alias(home, node.id)
            if definition is None:
                raise ValueError(f"{node.id} cannot be followed")
            return self.read(*definition, names + 1, 0)
        return _constant(node)

    def _items(self, home: str, element: ast.expr, names: int, depth: int) -> tuple[Any, ...]:
        if isinstance(element, ast.Starred):
            items = tuple(self.read(home, element.value, names, depth + 1))
            self._count_items(len(items))
            return items
        return (self.read(home, element, names, depth + 1),)

    def _dict(self, home: str, node: ast.Dict, names: int, depth: int) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.read(home, value, names, depth)
            if key is None:  # **value
                inner = dict(inner)
                self._count_items(len(inner))
                entries |= inner
            else:
                entries[self.read(home, key, names, depth)] = inner
        return entries

    def _attribute(self, home: str, owner: str, name: str, names: int) -> Any:  # noqa: ANN401
        """Return an attribute of a class that a module defines or imports, or of its bases."""
        try:
            definition = find(home, owner)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if definition is None or not isinstance(definition[1], ast.ClassDef):
            raise ValueError(f"{owner} cannot be followed")
        for module, cls in lineage(definition[0], definition[1]):
            if name in assigned_values(cls):
                return self.read(module, assigned_values(cls)[name], names, 0)
        raise ValueError(f"{owner} has no {name}")


def _constant(node: ast.expr | None) -> Any:  # noqa: ANN401
    """Return a constant, perhaps with a minus."""
    minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if minus and isinstance(node, ast.UnaryOp) else node
    if not isinstance(inner, ast.Constant):
        raise ValueError("no literal")
    value = inner.value
    # Python itself refuses to print a larger one.
    if isinstance(value, int) and value.bit_length() > 64:
        raise ValueError("too large a number")
    return -value if minus and isinstance(value, (int, float)) else value


def read_annotation(home: str, node: ast.expr | None) -> Any:  # noqa: ANN401
    """Return the type of an annotation in a module; ``Any`` if it is not understood.

    Examples:
        >>> import ast
        >>> read_annotation("m", ast.parse("list[PositiveInt] | None", mode="eval").body)
        list[typing.Annotated[int, Gt(gt=0)]] | None
    """
    return Any if node is None else _AnnotationReader().read(home, node, 0)


class _AnnotationReader:
    """Reads one annotation of limited size."""

    def __init__(self) -> None:
        self.left = _MAX_NODES  # syntax nodes that may still be read

    def read(self, home: str, node: ast.expr, depth: int) -> Any:  # noqa: ANN401
        self.left -= 1
        if self.left < 0 or depth > _MAX_DEPTH:
            return Any
        if isinstance(node, ast.Name):
            return self._name(home, node.id, depth + 1)
        if isinstance(node, ast.Subscript):
            return self._subscript(home, node, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left, right = (self.read(home, side, depth + 1) for side in (node.left, node.right))
            try:
                return left | right
            except TypeError:
                return Any
        return None if isinstance(node, ast.Constant) and node.value is None else Any

    def _name(self, home: str, name: str, depth: int) -> Any:  # noqa: ANN401
        if name in VOCABULARY:
            return VOCABULARY[name]
        definition = alias(home, name)
        return Any if definition is None else self.read(*definition, depth)

    def _subscript(self, home: str, node: ast.Subscript, depth: int) -> Any:  # noqa: ANN401
        generic = self.read(home, node.value, depth)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if generic is Literal:
            return self._options(home, inner, depth)
        if generic is Annotated and len(inner) > 1:
            return self._bounded(home, inner, depth)
        if generic is Callable:
            return Callable[..., Any]  # its arguments and result are not checked
        if not any(generic is known for known in _GENERICS):
            return Any
        try:
            return generic[tuple(self._member(home, each, depth) for each in inner)]
        except TypeError:
            return Any

    def _member(self, home: str, node: ast.expr, depth: int) -> Any:  # noqa: ANN401
        if isinstance(node, ast.Constant) and node.value is ...:
            return ...
        return self.read(home, node, depth)

    def _options(self, home: str, nodes: list[ast.expr], depth: int) -> Any:  # noqa: ANN401
        """Return a ``Literal``, nested ones included; ``Any`` unless all options are understood."""
        options: list[Any] = []
        for node in nodes:
            value = node.value if isinstance(node, ast.Constant) else None
            if (number := _number(node)) is not None:
                options.append(number)
            elif isinstance(value, (str, bytes, bool)):
                options.append(value)
            else:
                other = self.read(home, node, depth)
                if typing.get_origin(other) is not Literal:
                    return Any
                options.extend(typing.get_args(other))
        return Literal[tuple(options)] if 0 < len(options) <= _MAX_NODES else Any

    def _bounded(self, home: str, nodes: list[ast.expr], depth: int) -> Any:  # noqa: ANN401
        kind = self.read(home, nodes[0], depth)
        bounds = [bound for node in nodes[1:] if (bound := _bound(node)) is not None]
        parts, annotated = (kind, *bounds), typing.cast("Any", Annotated)
        try:
            return annotated[parts] if bounds else kind
        except TypeError:
            return Any


def _bound(node: ast.expr) -> Any:  # noqa: ANN401
    """Return a bound such as ``Ge(1)``; None for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    numbers = [_number(argument) for argument in node.args]
    named = {str(word.arg): _number(word.value) for word in node.keywords}
    if node.func.id not in _BOUNDS or None in (*numbers, *named.values()):
        return None
    try:
        return _BOUNDS[node.func.id](*numbers, **named)
    except TypeError:
        return None


def _number(node: ast.expr) -> int | float | None:
    """Return a number that is written out, perhaps with a minus; None for anything else."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    sound = value.bit_length() <= 64 if isinstance(value, int) else not math.isnan(value)
    return sign * value if sound else None

"""Types of annotations for :func:`rlcomp.arguments.problem`, read from source, not executed.

Read are the names of :data:`rlcomp.arguments.VOCABULARY`, a module's aliases of such expressions,
containers, ``Literal``, ``Annotated`` with bounds, and ``|``. Anything else is ``Any``: not checked
before the argument's class is there.
"""

from __future__ import annotations

import ast
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union

from rlcomp.arguments import VOCABULARY, Ge, Gt, Interval, Le, Lt, MinLen
from rlcomp.config.source import alias

_GENERICS: tuple[Any, ...] = (list, dict, tuple, Sequence, Mapping, Union)
_BOUNDS: dict[str, Callable[..., Any]] = {
    "Ge": Ge,
    "Gt": Gt,
    "Le": Le,
    "Lt": Lt,
    "Interval": Interval,
    "MinLen": MinLen,
}
# No annotation of a constructor comes near; a source that does is not looked into further.
_DEEPEST, _LARGEST = 32, 500


def read_annotation(home: str, node: ast.expr | None) -> Any:  # noqa: ANN401
    """Return the type of an annotation in a module; ``Any`` if it is not understood.

    Examples:
        >>> import ast
        >>> read_annotation("m", ast.parse("list[PositiveInt] | None", mode="eval").body)
        list[typing.Annotated[int, Gt(gt=0)]] | None
    """
    return Any if node is None else _AnnotationReader().read(home, node, 0)


class _AnnotationReader:
    """Reads one annotation, as far as its size allows."""

    def __init__(self) -> None:
        self.left = _LARGEST

    def read(self, home: str, node: ast.expr, depth: int) -> Any:  # noqa: ANN401
        self.left -= 1
        if self.left < 0 or depth > _DEEPEST:
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
            return Callable[..., Any]  # what it takes and gives is not looked into
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
        """``Literal``, other literals' options included; ``Any`` unless all are understood."""
        found: list[Any] = []
        for node in nodes:
            value = node.value if isinstance(node, ast.Constant) else None
            if _number(node) is not None:
                found.append(_number(node))
            elif isinstance(value, (str, bytes, bool)):
                found.append(value)
            else:
                other = self.read(home, node, depth)
                if typing.get_origin(other) is not Literal:
                    return Any
                found.extend(typing.get_args(other))
        return Literal[tuple(found)] if 0 < len(found) <= _LARGEST else Any

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

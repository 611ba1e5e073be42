"""Bases of a class in method resolution order, read from source files."""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cache

from rlcomp.config.source import find
from rlcomp.errors import ConfigError

# Dotted name of a module, and the definition of a class in it.
Class = tuple[str, ast.ClassDef]
# Limit for hostile sources. Real classes have far fewer.
_MAX_BASES = 256


@cache
def lineage(home: str, cls: ast.ClassDef) -> tuple[Class, ...]:
    """Return the class and its bases in method resolution order.

    Bases without sources, and those written with a dot (``module.Base``), are omitted.

    Raises:
        ConfigError: there are too many bases.
    """
    bases = _bases_by_class((home, cls))
    orders: dict[Class, list[Class]] = {}
    # Bases first; a cycle of bases is broken.
    stack, visited = [(home, cls)], set[Class]()
    while stack:
        visited.add(stack[-1])
        pending = [base for base in bases[stack[-1]] if base not in visited]
        if pending:
            stack.append(pending[0])
            continue
        top = stack.pop()
        known = [base for base in bases[top] if base in orders]
        orders[top] = [top, *_c3_merge([*(orders[base] for base in known), known])]
    return tuple(orders[home, cls])


def _bases_by_class(start: Class) -> dict[Class, list[Class]]:
    """Return the direct bases of a class and of all its ancestors."""
    bases: dict[Class, list[Class]] = {}
    stack = [start]
    while stack:
        cls = stack.pop()
        if cls not in bases:
            bases[cls] = _bases(*cls)
            stack += bases[cls]
        if len(bases) > _MAX_BASES:
            raise ConfigError(f"{start[1].name} has more than {_MAX_BASES} bases")
    return bases


def _bases(home: str, cls: ast.ClassDef) -> list[Class]:
    bases: list[Class] = []
    for base in cls.bases:
        if isinstance(base, ast.Name) and base.id != "object":
            try:
                module, definition = find(home, base.id, before=cls.lineno) or (home, None)
            except ConfigError:
                continue
            if isinstance(definition, ast.ClassDef) and (module, definition) not in bases:
                bases.append((module, definition))
    return bases


def has_unseen_base(home: str, cls: ast.ClassDef) -> bool:
    """Return whether a class has a base that :func:`lineage` omits."""
    return len(_bases(home, cls)) < len([b for b in cls.bases if ast.unparse(b) != "object"])


def _c3_merge(orders: Sequence[list[Class]]) -> Iterator[Class]:
    """Yield the C3 merge; if it does not exist, the first remaining class comes next."""
    queues = [deque(order) for order in orders]
    # Number of queues in which a class stands behind the head: it may come next if there is none.
    later = Counter(cls for order in orders for cls in order[1:])
    done: set[Class] = set()
    while queues := [queue for queue in queues if queue]:
        heads = [queue[0] for queue in queues]
        head = next((cls for cls in heads if not later[cls]), heads[0])
        if head not in done:
            done.add(head)
            yield head
        for queue in queues:
            if queue[0] == head:
                queue.popleft()
                later.subtract([queue[0]] if queue else [])

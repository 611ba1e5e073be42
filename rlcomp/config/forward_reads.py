"""Keys that the source of ``forward`` reads, declared or not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from rlcomp.config.source import Class

# Keys that a loss adds for its own forward (``weighted``).
_PREPARED = ("loss_weight", "row_weight")


def forward_reads(classes: Sequence[Class]) -> tuple[str, ...]:
    """Return the keys that the first ``forward`` of a lineage reads as ``batch["key"]``.

    Args:
        classes: a component's lineage, without ``Component`` itself.
    """
    for _, cls in classes:
        for line in cls.body:
            if isinstance(line, ast.FunctionDef) and line.name == "forward":
                return tuple(key for key in dict.fromkeys(_keys(line)) if key not in _PREPARED)
    return ()


def _keys(forward: ast.FunctionDef) -> Iterator[str]:
    arguments = [argument.arg for argument in forward.args.args[1:2]]
    for node in ast.walk(forward):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name)
            and node.value.id in arguments
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            yield node.slice.value

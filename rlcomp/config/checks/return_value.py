"""Check of return values, read from sources: ``forward`` must return the batch."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node
from rlcomp.config.source import find, lineage
from rlcomp.errors import ConfigError

_REMEDY = "forward must return the batch: write into it, batch['advantage'] = ..., and return batch"


def check_returned(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each stage whose ``forward`` surely returns no batch.

    A case that the source does not decide is checked when the stage runs.
    """
    for node in plan.nodes.values():
        if _has_keys(node) and (fault := not_returned(node.target)):
            yield refuse(f"{node.path}._target_ is {node.target}: {fault}; {_REMEDY}")


def check_scoring(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each reward function of the user that returns no score."""
    for node in plan.nodes.values():
        path = node.arguments.get("function")
        if not node.target.endswith("reward.function.FunctionReward") or not isinstance(path, str):
            continue
        if (line := _without_return(path)) is not None:
            yield refuse(
                f"{node.path}.function is {path!r}: it returns nothing (line {line}), so that "
                "every row would be invalid; end it with the score, return reward"
            )


def _without_return(path: str) -> int | None:
    """Return the line of a function that surely returns nothing; None: it may return something."""
    module, _, name = path.rpartition(".")
    try:
        binding = find(module, name) if module else None
    except ConfigError:
        return None  # its import reports the fault
    if binding is None or not isinstance(binding[1], (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    syntax = [*_body_syntax(binding[1])]
    returns_value = any(isinstance(part, ast.Return) and part.value is not None for part in syntax)
    other = (ast.Yield, ast.YieldFrom, ast.Raise)
    if returns_value or any(isinstance(part, other) for part in syntax):
        return None
    return binding[1].lineno


def _has_keys(node: Node) -> bool:
    """Return whether the target of a node is a component that reads or writes keys."""
    part = node.declaration
    return not part.opaque and bool(part.reads or part.writes or part.optional)


def not_returned(target: str) -> str | None:
    """Return why a component's ``forward`` surely returns no batch; None: it may return one."""
    module, _, name = target.rpartition(".")
    definition = find(module, name)
    if definition is None or not isinstance(definition[1], ast.ClassDef):
        return None
    for _, cls in lineage(definition[0], definition[1]):
        for line in cls.body:
            if isinstance(line, ast.FunctionDef) and line.name == "forward":
                return _fault(line)
    return None


def _fault(forward: ast.FunctionDef) -> str | None:
    syntax = [*_body_syntax(forward)]
    if any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in syntax):
        return f"its forward is a generator (line {forward.lineno})"
    returns = [part for part in syntax if isinstance(part, ast.Return)]
    if not returns:
        ends = any(isinstance(part, ast.Raise) for part in syntax)
        return None if ends else f"its forward returns nothing (line {forward.lineno})"
    arguments = forward.args.args[1:2]
    batch = arguments[0].arg if arguments else ""
    for line in returns:
        if line.value is None or _is_other_value(line.value, batch, _assigned(syntax)):
            shown = "nothing" if line.value is None else ast.unparse(line.value)
            return f"its forward returns {shown:.80} (line {line.lineno})"
    return None


def _body_syntax(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a function's body, without those of inner functions."""
    stack: list[ast.AST] = [*function.body]
    while stack:
        part = stack.pop()
        yield part
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack += ast.iter_child_nodes(part)


def _assigned(parts: list[ast.AST]) -> dict[str, ast.expr]:
    """Return the values of names that are bound once, by an assignment."""
    values: dict[str, ast.expr] = {}
    for part in parts:
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            values[part.targets[0].id] = part.value
    names = [part for part in parts if isinstance(part, ast.Name)]
    bound = Counter(name.id for name in names if isinstance(name.ctx, ast.Store))
    return {name: value for name, value in values.items() if bound[name] == 1}


def _is_other_value(value: ast.expr, batch: str, names: dict[str, ast.expr]) -> bool:
    """Return whether a value is surely no batch: an entry, a number, or computed from these."""
    if isinstance(value, (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Compare)):
        return True
    if isinstance(value, ast.Subscript):
        return (
            isinstance(value.value, ast.Name)
            and value.value.id == batch
            and isinstance(value.slice, ast.Constant)
            and isinstance(value.slice.value, str)
        )
    if isinstance(value, ast.BinOp):
        sides = (value.left, value.right)
        return any(_is_other_value(side, batch, names) for side in sides) and not any(
            isinstance(side, ast.Name) and side.id == batch for side in sides
        )
    if isinstance(value, ast.Name) and value.id in names:
        others = {name: one for name, one in names.items() if name != value.id}
        return _is_other_value(names[value.id], batch, others)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return _is_other_value(value.func.value, batch, names)
    return False

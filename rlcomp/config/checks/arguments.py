"""Check of the arguments of every node against its constructor, before anything is built."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

from rlcomp.arguments import problem, remedy
from rlcomp.config.finding import Finding, refuse
from rlcomp.config.migrations import new_name
from rlcomp.config.plan import Plan, nodes_in
from rlcomp.config.reader import BROKEN, Node
from rlcomp.errors import nearest
from rlcomp.keys import prompt_keys

# A single step at a higher learning rate destroys the weights under any optimiser.
_HIGHEST_RATE = 100
_AGENT = "components.environment.tools.Tools"
# Packages whose classes have a yaml of their own.
_OURS = ("components", "rlcomp", "torch")


def check_arguments(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each unknown, missing, mistyped or out-of-range argument of a node."""
    tools = {tool.path for node in plan.nodes.values() for tool in _tool_functions(node)}
    for node in plan.nodes.values():
        if node.declaration.fault:
            yield refuse(f"{node.path}._target_ is {node.target}: {node.declaration.fault}")
            continue
        for name, value in node.arguments.items():
            yield from map(refuse, _argument_faults(node, name, value))
        # An agent calls its tools with the rest of their arguments.
        if not node.partial and node.path not in tools:
            yield from map(refuse, _missing_arguments(node))
        yield from map(refuse, _missing_packages(node))
        yield from map(refuse, _unknown_keys(node))


def _tool_functions(node: Node) -> Iterator[Node]:
    """Yield the functions that are tools of an agent."""
    tools = node.arguments.get("tools") if node.target == _AGENT else None
    return (tool for tool in nodes_in(tools) if tool.declaration.function)


def _title(node: Node) -> str:
    """Return the path and the class of a node, as messages name it."""
    return f"{node.path} ({node.declaration.name})"


def _argument_faults(node: Node, name: str, value: object) -> Iterator[str]:
    declaration, path = node.declaration, f"{node.path}.{name}"
    parameter = declaration.parameters.get(name)
    if parameter is None and not declaration.open_ended:
        new = new_name(name)
        hint = f"; it is now '{new}'" if new else nearest(name, declaration.parameters)
        # The yaml of an option still has the argument if the user replaced only its _target_.
        foreign = node.target.partition(".")[0] not in _OURS
        deletion = f"; where its yaml sets it, delete it, '~{path}'" if foreign else ""
        yield f"{path}: {_title(node)} takes no such argument{hint}{deletion}"
    fault = problem(parameter.annotation, value) if parameter else None
    fault = fault or _number_fault(name, value)
    if fault and not _has_broken(value):
        yield f"{path} is {_shown(value)}: {fault}; {remedy(path, value, fault)}"


def _missing_arguments(node: Node) -> Iterator[str]:
    for name, parameter in node.declaration.parameters.items():
        if parameter.required and name not in node.arguments:
            yield f"{node.path}: {_title(node)} needs '{name}'; set +{node.path}.{name}=..."


def _missing_packages(node: Node) -> Iterator[str]:
    for module, extra in node.declaration.extras:
        if not _installed(module.partition(".")[0]):
            yield (
                f"{node.path}: {_title(node)} needs '{module}', which is not installed: "
                f"pip install 'rlcomp[{extra}]'"
            )


def _unknown_keys(node: Node) -> Iterator[str]:
    """Yield a message on each renamed key that the part of a node does not have."""
    part = node.declaration
    written = {*part.written(node.arguments), *part.may_write}
    known = {*part.reads, *part.optional} | written
    known |= prompt_keys() if part.keeps_prompt else frozenset()
    for key in node.keys:
        if key not in known and not part.opaque:
            yield f"{node.path}._keys_.{key}: {_title(node)} has no such key{nearest(key, known)}"


def _number_fault(name: str, value: object) -> str | None:
    """Return the fault of a number that no constructor may take; None: it has none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if not abs(value) <= sys.float_info.max:
        return "must be finite"
    return f"must be at most {_HIGHEST_RATE}" if name == "lr" and value > _HIGHEST_RATE else None


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _shown(value: object) -> str:
    return f"a {value.target}" if isinstance(value, Node) else repr(value)


def _has_broken(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_broken, value.values()))
    return value is BROKEN or (isinstance(value, list) and any(map(_has_broken, value)))

"""Check of the arguments of every node against its constructor, before anything is built."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence

from rlcomp.arguments import problem, remedy
from rlcomp.config.declare import declare
from rlcomp.config.migrations import new_name
from rlcomp.config.plan import Plan, nodes_in
from rlcomp.config.reader import BROKEN, Node
from rlcomp.errors import ConfigError, nearest
from rlcomp.keys import prompt_keys

# One step at such a learning rate leaves no weight that means anything, by any optimiser.
_HIGHEST_RATE = 100
_AGENT = "components.environment.tools.Tools"
# Packages whose classes are chosen with the yaml that belongs to them.
_OURS = ("components", "rlcomp", "torch")


def check_arguments(plan: Plan) -> list[str]:
    """Unknown, missing, mistyped and out-of-range arguments of every node."""
    nodes = plan.nodes.values()
    tools = [tool.path for node in nodes for tool in _tools(node)]
    return [fault for node in nodes for fault in _check_node(node, tools)]


def _tools(node: Node) -> Iterator[Node]:
    """Functions that are tools of an agent: it calls them, with the rest of their arguments."""
    tools = node.arguments.get("tools") if node.target == _AGENT else None
    for tool in nodes_in(tools):
        with contextlib.suppress(ConfigError):  # told by the check of the tool itself
            if declare(tool.target).function:
                yield tool


def _check_node(node: Node, as_tools: Sequence[str]) -> list[str]:
    try:
        declaration = declare(node.target)
    except ConfigError as error:
        return [f"{node.path}._target_ is {node.target}: {error}"]
    kind, errors = f"{node.path} ({declaration.name})", []
    for name, value in node.arguments.items():
        known = declaration.parameters.get(name)
        where = f"{node.path}.{name}"
        if known is None and not declaration.open_ended:
            new = new_name(name)
            hint = f"; it is now '{new}'" if new else nearest(name, declaration.parameters)
            # An option's yaml brings it along for a class that is another one now.
            other = node.target.partition(".")[0] not in _OURS
            left = f"; where its yaml sets it, delete it, '~{where}'" if other else ""
            errors.append(f"{where}: {kind} takes no such argument{hint}{left}")
        fault = problem(known.annotation, value) if known else None
        fault = fault or _number_fault(name, value)
        if fault and not _has_broken(value):
            errors.append(f"{where} is {_shown(value)}: {fault}; {remedy(where, value, fault)}")
    for name, parameter in declaration.parameters.items():
        optional = name in node.arguments or node.partial or node.path in as_tools
        if parameter.required and not optional:
            errors.append(f"{node.path}: {kind} needs '{name}'; set +{node.path}.{name}=...")
    errors += [
        f"{node.path}: {kind} needs '{module}', which is not installed: "
        f"pip install 'rlcomp[{extra}]'"
        for module, extra in declaration.extras
        if not _installed(module.partition(".")[0])
    ]
    own = {*declaration.reads, *declaration.writes, *declaration.optional, *declaration.may_write}
    own |= prompt_keys() if declaration.keeps_prompt else frozenset()
    errors += [
        f"{node.path}._keys_.{key}: {kind} has no such key{nearest(key, own)}"
        for key in node.keys
        if key not in own and not declaration.opaque
    ]
    return errors


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

"""Checks of the settings of a run, and of the arguments of every node against its constructor."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping

from rlcomp.arguments import NonEmptyText, NonNegativeInt, problem, remedy
from rlcomp.config.finding import Finding, refuse
from rlcomp.config.migrations import new_name
from rlcomp.config.plan import Plan, nodes_in
from rlcomp.config.reader import BROKEN, Node
from rlcomp.errors import nearest
from rlcomp.keys import prompt_keys

# Type of each plain value that every run has.
SETTINGS = {
    "seed": NonNegativeInt,
    "device": NonEmptyText,
    "directory": NonEmptyText,
    "resume": NonEmptyText,
    "trust": bool,
    "overwrite": bool,
    "accept_changed_files": bool,
}
_RESUME = "auto, must, never, or the path of a run or of one of its checkpoints"
# A single step at a higher learning rate destroys the weights under any optimiser.
_HIGHEST_RATE = 100
# The environment whose argument ``tools`` lists functions.
_AGENT = "components.environment.tools.Tools"
# Packages whose classes have a yaml of their own.
_OURS = ("components", "rlcomp", "torch")


def check_settings(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each mistake in the plain values that every run has."""
    for name, kind in SETTINGS.items():
        value = plan.tree.get(name, BROKEN)
        if value is not BROKEN and (fault := problem(kind, value)):
            instead = f"set resume={_RESUME}" if name == "resume" else remedy(name, value, fault)
            yield refuse(f"{name} is {value!r}: {fault}; {instead}")


def check_patches(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each yaml of the user whose settings stand below its group."""
    for name in ("recipe", "experiment"):
        if plan.tree.get(name):
            yield refuse(
                f"{name} is a node of its own, which nothing reads: the first line of its yaml "
                "must be '# @package _global_'"
            )


def check_rates(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each learning rate of torch's optimisers that is not a number."""
    for node in plan.nodes.values():
        rate = node.arguments.get("lr")
        if node.target.startswith("torch.optim.") and isinstance(rate, (str, bool, list)):
            sweep = f"a sweep has no brackets, rlcomp -m {node.path}.lr=1e-4,1e-3"
            instead = sweep if isinstance(rate, list) else f"set {node.path}.lr=1e-4"
            yield refuse(f"{node.path}.lr is {rate!r}: must be a number; {instead}")


def check_adapters(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each reference that disables adapters which the policy does not have."""
    policy = plan.nodes.get("policy")
    model = policy.arguments.get("model") if policy else None
    target = model.target if isinstance(model, Node) else ""
    if not target.startswith("rlcomp.model.") or re.search("lora|adapter", target):
        return
    for node in plan.nodes.values():
        if node.target.endswith(".AdapterOffReference"):
            yield refuse(
                f"{node.path} is adapter_off: it switches the adapters of the policy off, but "
                "with adapter=none the policy has none: add adapter=lora, or take reference=frozen"
            )


def check_randomise(plan: Plan) -> Iterator[Finding]:
    """Yield a finding if dynamics are drawn for an environment that the recipe does not have."""
    environment = plan.tree.get("environment")
    if isinstance(environment, Mapping) and set(environment) == {"randomise"}:
        yield refuse(
            "randomise draws the dynamics of 'environment', which this recipe does not have: set "
            "randomise=none, or choose a recipe of control"
        )


def check_tracker(plan: Plan) -> Iterator[Finding]:
    """Yield a finding if a tracker has settings, but no tracker is chosen."""
    tracker = plan.tree.get("tracker")
    if isinstance(tracker, Mapping) and "_target_" not in tracker:
        yield refuse(
            "tracker has settings, but none is chosen: add tracker=wandb (or tracker=tensorboard)"
        )


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
        shown = f"a {value.target}" if isinstance(value, Node) else repr(value)
        yield f"{path} is {shown}: {fault}; {remedy(path, value, fault)}"


def _number_fault(name: str, value: object) -> str | None:
    """Return the fault of a number that no constructor may take; None: it has none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if not abs(value) <= sys.float_info.max:
        return "must be finite"
    return f"must be at most {_HIGHEST_RATE}" if name == "lr" and value > _HIGHEST_RATE else None


def _has_broken(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_broken, value.values()))
    return value is BROKEN or (isinstance(value, list) and any(map(_has_broken, value)))


def _missing_arguments(node: Node) -> Iterator[str]:
    for name, parameter in node.declaration.parameters.items():
        if parameter.required and name not in node.arguments:
            yield f"{node.path}: {_title(node)} needs '{name}'; set +{node.path}.{name}=..."


def _missing_packages(node: Node) -> Iterator[str]:
    for module, extra in node.declaration.extras:
        if not _is_installed(module.partition(".")[0]):
            yield (
                f"{node.path}: {_title(node)} needs '{module}', which is not installed: "
                f"pip install 'rlcomp[{extra}]'"
            )


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _unknown_keys(node: Node) -> Iterator[str]:
    """Yield a message on each renamed key that the part of a node does not have."""
    part = node.declaration
    written = {*part.written(node.arguments), *part.may_write}
    known = {*part.reads, *part.optional} | written
    known |= prompt_keys() if part.keeps_prompt else frozenset()
    for key in node.keys:
        if key not in known and not part.opaque:
            yield f"{node.path}._keys_.{key}: {_title(node)} has no such key{nearest(key, known)}"

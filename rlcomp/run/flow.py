"""The flow of keys through the stages of a phase, checked before anything is built.

Every key a stage reads must have been written by an earlier stage of the same step. The same check runs
on declarations read from source and, for foreign modules, once more on built objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rlcomp.check import problem
from rlcomp.errors import ConfigError, nearest
from rlcomp.run.declare import Declaration, declare
from rlcomp.run.options import options_writing
from rlcomp.run.wiring import BROKEN, Node, PhasePlan, Plan, children


@dataclass(frozen=True)
class Flow:
    """What a stage needs from before it and leaves behind it."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    fresh: bool = False
    opaque: bool = False

    def then(self, after: Flow) -> Flow:
        """This, then that."""
        gone = after.fresh
        missing = frozenset() if self.opaque else after.reads - self.writes
        return Flow(
            reads=self.reads if self.fresh else self.reads | missing,
            writes=after.writes if gone else self.writes | after.writes,
            fresh=self.fresh or after.fresh,
            opaque=(self.opaque and not gone) or after.opaque,
        )


def fold(flows: Iterable[Flow]) -> Flow:
    """Several stages as one."""
    total = Flow()
    for flow in flows:
        total = total.then(flow)
    return total


def ran(node: Node, declaration: Declaration) -> list[Node]:
    """The children that a composite calls, in calling order."""
    order: list[Node] = []
    for name in declaration.runs:
        order += children(Node(node.path, node.target, {name: node.arguments.get(name)}))
    return order


def flow_of(node: Node) -> Flow:
    """The flow of a node, from its declaration and its children's."""
    declaration = declare(node.target)
    inner = fold(flow_of(child) for child in ran(node, declaration))
    own_reads = frozenset(node.keys.get(key, key) for key in declaration.reads)
    own_writes = frozenset(node.keys.get(key, key) for key in declaration.writes)
    left = frozenset() if declaration.contained else inner.writes
    return Flow(
        reads=own_reads | inner.reads,
        writes=own_writes | left,
        fresh=declaration.fresh or (inner.fresh and not declaration.contained),
        opaque=declaration.opaque or (inner.opaque and not declaration.contained),
    )


def check_flow(plan: Plan) -> list[str]:
    """Every mistake in how the stages of the phases fit together."""
    errors: list[str] = []
    for name, phase in plan.phases.items():
        errors += check_phase(name, phase, plan)
    return errors


def check_phase(
    name: str, phase: PhasePlan, plan: Plan, flow: Callable[[Any], Flow] = flow_of
) -> list[str]:
    """The mistakes of one phase."""
    if any(stage is BROKEN for stage in phase.stages):
        return []  # a name is wrong: told already, and what follows from it is no news
    stages = [stage for stage in phase.stages if isinstance(stage, Node)]
    beside = [stage for _, stage in phase.every.values() if isinstance(stage, Node)]
    try:
        flows = [flow(stage) for stage in (*stages, *beside)]
    except ConfigError:
        return []  # the same mistake is told by the check of arguments
    errors = []
    before = Flow()
    for place, stage in enumerate((*stages, *beside)):
        aside = place >= len(stages)
        part = flows[place]
        if not before.opaque:
            remedies: dict[str, list[str]] = {}
            for key in sorted(part.reads - before.writes):
                told = _remedy(stage, key, stages, flows, place, plan)
                remedies.setdefault(told, []).append(f"'{key}'")
            start = f"phases.{name}.stages: stage {stage.path} ({declare(stage.target).name}) reads "
            errors += [f"{start}{', '.join(keys)}{told}" for told, keys in remedies.items()]
        if not aside:
            before = before.then(part)
    return errors + _group_size(name, stages) + _exclusive(name, stages)


def _remedy(
    stage: Node, key: str, stages: list[Node], flows: list[Flow], place: int, plan: Plan
) -> str:
    for later, flow in zip(stages[place + 1 :], flows[place + 1 : len(stages)], strict=True):
        if key in flow.writes:
            return f"; {later.path} writes that, but later: move {later.path} before {stage.path}"
    used = {other.path for other in stages}
    written = sorted(fold(flows[:place]).writes) or ["nothing"]
    start = f", which no earlier stage writes (written so far: {', '.join(written)}): "
    for node in plan.nodes.values():
        if node.path not in used and "." not in node.path and key in _writes(node):
            return f"{start}add {node.path} to the list before {stage.path}"
    options = options_writing(key)
    choose = f"choose {' or '.join(options)}" if options else "add a stage that writes it"
    return f"{start}{choose}, or take another {stage.path}"


def _writes(node: Node) -> frozenset[str]:
    try:
        return flow_of(node).writes
    except ConfigError:
        return frozenset()


def _group_size(phase: str, stages: list[Node]) -> list[str]:
    errors, sizes = [], [("", 0)]
    for stage in stages:
        size = stage.arguments.get("group_size")
        if isinstance(size, int):
            sizes.append((stage.path, size))
        least, (path, now) = declare(stage.target).min_group_size, sizes[-1]
        if path and now < least:
            errors.append(
                f"{path}.group_size is {now}: {stage.path} ({declare(stage.target).name}) in phase "
                f"{phase} compares at least {least} answers per prompt; set {path}.group_size="
                f"{max(least, 8)} or choose another {stage.path}"
            )
    return errors


def _exclusive(phase: str, stages: list[Node]) -> list[str]:
    seen: dict[str, dict[str, Node]] = {}
    queue = list(stages)
    while queue:
        node = queue.pop(0)
        queue += children(node)
        mark = declare(node.target).exclusive
        if mark:
            seen.setdefault(mark, {})[node.path] = node
    return [
        f"phases.{phase}: '{mark}' is counted by {' and by '.join(nodes)}: keep one, e.g. ~{last}"
        for mark, nodes in seen.items()
        if len(nodes) > 1
        for last in [list(nodes)[-1]]
    ]


def check_arguments(plan: Plan) -> list[str]:
    """Unknown, missing, mistyped and out-of-range arguments of every node."""
    return [fault for node in plan.nodes.values() for fault in _check_node(node)]


def _check_node(node: Node) -> list[str]:
    try:
        declaration = declare(node.target)
    except ConfigError as error:
        return [f"{node.path}._target_ is {node.target}: {error}"]
    kind, errors = f"{node.path} ({declaration.name})", []
    for name, value in node.arguments.items():
        known = declaration.parameters.get(name)
        where = f"{node.path}.{name}"
        if known is None and not declaration.open_ended:
            errors.append(f"{where}: {kind} takes no such argument{nearest(name, declaration.parameters)}")
        fault = problem(known.annotation, value) if known else None
        if fault and not _has_broken(value):
            errors.append(f"{where} is {_shown(value)}: {fault}; set {where}=...")
    for name, parameter in declaration.parameters.items():
        if parameter.required and name not in node.arguments and not node.partial:
            errors.append(f"{node.path}: {kind} needs '{name}'; set +{node.path}.{name}=...")
    own = {*declaration.reads, *declaration.writes}
    errors += [
        f"{node.path}._keys_.{key}: {kind} has no such key{nearest(key, own)}"
        for key in node.keys
        if key not in own and not declaration.opaque
    ]
    return errors


def _shown(value: object) -> str:
    return f"a {value.target}" if isinstance(value, Node) else repr(value)


def _has_broken(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_broken, value.values()))
    return value is BROKEN or (isinstance(value, list) and any(map(_has_broken, value)))

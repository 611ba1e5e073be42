"""Flow of a plan, from the declarations of classes in their sources; nothing is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.flow import Flow, Stage, check_stages, fold, mark_source, rename_key
from rlcomp.config.plan import PhasePlan, Plan, below, children
from rlcomp.config.reader import BROKEN, Node
from rlcomp.keys import prompt_keys


def run_children(node: Node) -> list[Node]:
    """Return the children that a composite calls, in calling order."""
    order: list[Node] = []
    for name in node.declaration.runs:
        order += children(Node(node.path, node.target, {name: node.arguments.get(name)}))
    return order


def flow_of(node: Node) -> Flow:
    """Return the flow of a node, from its declaration and its children's."""
    declaration = node.declaration
    inner = fold(flow_of(child) for child in run_children(node))
    inner_writes = frozenset() if declaration.contained else inner.writes
    optional_keys = frozenset(declaration.optional) if declaration.fresh else frozenset()
    writes = declaration.written(node.arguments)
    # A fresh part that may read a key it writes only passes it on from the old batch.
    copied_keys = _rename(node, optional_keys.intersection(writes))
    kept_prompt_keys = prompt_keys() if declaration.keeps_prompt else frozenset()
    carries = copied_keys | _rename(node, kept_prompt_keys)
    return Flow(
        reads=_rename(node, declaration.reads) | (inner.reads - frozenset(declaration.supplies)),
        writes=(_rename(node, writes) - copied_keys) | inner_writes,
        fresh=declaration.fresh or (inner.fresh and not declaration.contained),
        opaque=declaration.opaque or (inner.opaque and not declaration.contained),
        lacks=inner.lacks,
        carries=carries | (frozenset() if declaration.contained else inner.carries),
    )


def _rename(node: Node, keys: Iterable[str]) -> frozenset[str]:
    """Return keys of the schema under the names that a node gives them (``_keys_``)."""
    return frozenset(node.keys.get(key, key) for key in keys)


def stage_of(node: Node) -> Stage:
    """Return the data of a node for the flow check."""
    declaration, size = node.declaration, node.arguments.get("group_size")
    run = [] if declaration.contained else [stage_of(child) for child in run_children(node)]
    return Stage(
        path=node.path,
        kind=declaration.name,
        flow=flow_of(node),
        group_size=size if isinstance(size, int) else None,
        min_group_size=_min_group_size(node),
        must_reach=frozenset(rename_key(key, node.keys) for key in declaration.must_reach),
        reads=_all_reads(node),
        marks=_marks(node),
        parts=[part.without_reads(frozenset(declaration.supplies)) for part in run],
    )


def _min_group_size(node: Node) -> int:
    size = node.arguments.get(node.declaration.min_group_size_from)
    return max(node.declaration.min_group_size, size if isinstance(size, int) else 0)


def _all_reads(node: Node) -> frozenset[str]:
    """Return the keys that a node and the parts it runs read, optional keys included.

    The parts of a node with unknown keys are all those among its arguments.
    """
    declaration = node.declaration
    keys = _rename(node, (*declaration.reads, *declaration.optional))
    run = children(node) if declaration.opaque else run_children(node)
    inside = frozenset[str]().union(*(_all_reads(child) for child in run))
    return keys | (inside - frozenset(declaration.supplies))


def _marks(node: Node) -> dict[str, frozenset[str]]:
    declaration = node.declaration
    condition = declaration.exclusive_if
    counts = declaration.exclusive and (not condition or node.arguments.get(condition) is True)
    # A mark may be the name of a key: a part that renames this key writes another entry.
    counts = counts and declaration.exclusive not in node.keys
    marks = (
        {declaration.exclusive: frozenset({mark_source(node.path, condition)})} if counts else {}
    )
    for child in children(node):
        for name, paths in _marks(child).items():
            marks[name] = marks.get(name, frozenset()) | paths
    return marks


# Largest batch: all of its rows are in memory at once.
_MOST_ROWS = 2**24


def check_flow(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on stages of a phase that do not fit together."""
    for name, phase in plan.phases.items():
        yield from map(refuse, _check_phase(name, phase, plan))


def _check_phase(name: str, phase: PhasePlan, plan: Plan) -> list[str]:
    """Return the mistakes of a phase; none where a stage could not be read."""
    periodic = [stage for _, stage in phase.every.values()]
    if any(stage is BROKEN for stage in (*phase.listed_stages(), *periodic)):
        return []
    periodic_nodes = [stage for stage in periodic if isinstance(stage, Node)]
    errors: dict[str, None] = {}
    for stages in phase.lists():
        nodes = [stage for stage in stages if isinstance(stage, Node)]
        if all(_is_readable(node) for node in (*nodes, *periodic_nodes)):
            errors |= dict.fromkeys(_check_list(name, nodes, periodic_nodes, phase, plan))
    return list(errors)


def _is_readable(node: Node) -> bool:
    """Return whether a node and its parts have declarations; ``check_arguments`` reports faults."""
    return not any(part.declaration.fault for part in (node, *below(node)))


def _check_list(
    name: str, nodes: list[Node], periodic: list[Node], phase: PhasePlan, plan: Plan
) -> list[str]:
    remedy = ", and say how often with every.checkpoint"
    used = {stage.path for stage in phase.listed_stages() if isinstance(stage, Node)}
    top = [node for path, node in plan.nodes.items() if "." not in path and path not in used]
    others = {node.path: flow_of(node) for node in top}
    messages = [
        f"phases.{name}.stages: {node.path} ({node.declaration.name}) is no stage: it has no "
        f"forward; take it out of the list{remedy if node.path == 'checkpoint' else ''}"
        for node in nodes
        if not node.declaration.runnable
    ]
    if messages:
        return messages
    stages, periodic_stages = ([stage_of(n) for n in group] for group in (nodes, periodic))
    return check_stages(name, stages, periodic_stages, others) + _check_rows(nodes)


def _check_rows(nodes: list[Node]) -> list[str]:
    """Return messages on batches that are too large, or that cannot be divided.

    The arguments of a node and of its children tell the rows of the batch after it: prompts, times
    answers per prompt, or the ``rows`` of a refill.
    """
    errors, rows = [], 0
    for node in nodes:
        inside = [node, *children(node)]
        batch, groups, parts, refill = (
            next((child.arguments[name] for child in inside if name in child.arguments), None)
            for name in ("batch_size", "group_size", "num_minibatches", "rows")
        )
        rows = batch if isinstance(batch, int) else rows
        rows = rows * groups if isinstance(groups, int) else rows
        if isinstance(refill, int) and isinstance(groups, int) and refill % groups:
            errors.append(
                f"{node.path}.rows is {refill}, no multiple of group_size {groups}, so that a "
                f"group would be cut in two; set {node.path}.rows={groups * (refill // groups + 1)}"
            )
        rows = refill if isinstance(refill, int) else rows
        if rows > _MOST_ROWS:
            errors.append(
                f"{node.path}: a batch would have {rows} rows, more than {_MOST_ROWS}; lower "
                "batch_size or group_size"
            )
            rows = 0
        if isinstance(parts, int) and 0 < rows < parts:
            errors.append(
                f"{node.path}.num_minibatches is {parts}, but a batch has only {rows} rows; lower "
                "it, or raise batch_size or group_size"
            )
    return errors

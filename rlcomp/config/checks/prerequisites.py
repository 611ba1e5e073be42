"""Check of prerequisites: the nodes of ``on_begin`` can act, and earlier phases do the rest."""

from __future__ import annotations

from rlcomp.config.declare import Declaration, declare
from rlcomp.config.plan import Plan, collect, nodes_in
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigError


def check_begun(plan: Plan) -> list[str]:
    """Return a message on each part of a phase whose prerequisite no phase has done before it.

    What a class names in ``earlier`` (the snapshot of a restore, the store of collected rows, the
    model of a trained scorer) has to be run by an earlier phase, or before it in the same
    ``on_begin``.
    """
    errors: list[str] = []
    done: dict[str, Node] = {}
    for name, phase in plan.phases.items():
        for node in phase.on_begin:
            errors += _cannot_act(f"phases.{name}.on_begin", node)
            errors += _too_early(f"phases.{name}.on_begin", node, done)
            collect(node, done)
        running: dict[str, Node] = {}
        collect((phase.lists(), phase.every), running)
        for node in running.values():
            errors += _too_early(f"phases.{name}", node, done)
        done |= running if phase.steps else {}
    return errors


def _declared(node: Node) -> Declaration:
    try:
        return declare(node.target)
    except ConfigError:
        return Declaration(node.target)  # told by the check of arguments


def _cannot_act(where: str, node: Node) -> list[str]:
    if _declared(node).begins:
        return []
    return [
        f"{where}: {node.path} ({_declared(node).name}) does nothing when a phase begins (it has "
        "no begin_phase); name an action there, such as +action@back=restore"
    ]


def _too_early(where: str, node: Node, done: dict[str, Node]) -> list[str]:
    needed = (node.arguments.get(name) for name in _declared(node).earlier)
    return [
        f"{where}: {node.path} ({_declared(node).name}) needs {other.path}, which no phase before "
        f"it runs; give it one, and say the order with {where.removesuffix('.on_begin')}.after=..."
        for other in nodes_in([*needed])
        if other.path not in done
    ]

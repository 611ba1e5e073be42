"""Check that nodes of ``on_begin`` can act, and that earlier phases run what parts need."""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import Plan, collect, nodes_in
from rlcomp.config.reader import Node


def check_begun(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each part of a phase whose prerequisite no earlier phase has run.

    The prerequisites are the arguments that a class names in ``earlier`` (the snapshot of a
    restore, the store of collected rows, the model of a trained scorer). An earlier phase has to
    run them, or an earlier entry of the same ``on_begin``.
    """
    finished: dict[str, Node] = {}
    for name, phase in plan.phases.items():
        for node in phase.on_begin:
            if not node.declaration.begins:
                yield refuse(
                    f"phases.{name}.on_begin: {node.path} ({node.declaration.name}) does nothing "
                    "when a phase begins (it has no begin_phase); name an action there, such as "
                    "+action@back=restore"
                )
            yield from _unmet(f"phases.{name}", ".on_begin", node, finished)
            collect(node, finished)
        running: dict[str, Node] = {}
        collect((phase.lists(), phase.every), running)
        for node in running.values():
            yield from _unmet(f"phases.{name}", "", node, finished)
        finished |= running if phase.steps else {}


def _unmet(phase: str, entry: str, node: Node, finished: dict[str, Node]) -> Iterator[Finding]:
    """Yield a finding on each prerequisite of a node that is not among the finished nodes."""
    prerequisites = [node.arguments.get(name) for name in node.declaration.earlier]
    for other in nodes_in(prerequisites):
        if other.path not in finished:
            yield refuse(
                f"{phase}{entry}: {node.path} ({node.declaration.name}) needs {other.path}, but no "
                f"earlier phase runs it; give {other.path} a phase, and set {phase}.after=..."
            )

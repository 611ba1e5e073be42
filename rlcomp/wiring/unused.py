"""Samplers and evaluators that no phase uses: what they refuse, a run does not need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlcomp.errors import UserError
from rlcomp.wiring.plan import Plan, children, collect
from rlcomp.wiring.reader import Node


@contextmanager
def leave_out_told(plan: Plan, node: Node) -> Iterator[None]:
    """Context in which the refusal of a node that no phase uses says how to leave it out.

    Args:
        plan: of the run.
        node: what is built.

    Raises:
        UserError: as it was raised, with that remedy in front.
    """
    try:
        yield
    except UserError as error:
        if is_unused(plan, node):
            why = str(error).partition("; ")[0]
            error.args = (
                f"no phase of this run uses {node.path}: leave it out, '~{node.path}' ({why})",
            )
        raise


def is_unused(plan: Plan, node: Node) -> bool:
    """Whether a node takes a task and is reached neither from a phase nor from another node."""
    if "." in node.path or "task" not in node.arguments:
        return False
    used: dict[str, Node] = {}
    for phase in plan.phases.values():
        collect((phase.lists(), phase.every, phase.on_begin), used)
    held = (child.path for other in plan.nodes.values() for child in children(other))
    return node.path not in used and node.path not in held

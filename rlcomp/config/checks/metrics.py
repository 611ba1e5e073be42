"""Check of the metrics that parts in ``every`` wait for: their recorders are due before."""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.config.declare import Declaration, declare
from rlcomp.config.plan import PhasePlan, Plan, collect
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigError


def check_watched(plan: Plan) -> list[str]:
    """Return a message on each metric (``watches``) that its part would never see or mostly miss.

    What records ``evaluation/sampled`` is known where a node is called ``evaluation``, by its path
    or by its argument ``name``; what other stages record is not known before they run.
    """
    return [
        f"{node.path}.{argument} is {metric!r}, but {fault}"
        for name, phase in plan.phases.items()
        for node, argument, metric in _watched(phase)
        if (fault := _problem(f"phases.{name}", phase, plan, node, metric))
    ]


def _watched(phase: PhasePlan) -> Iterator[tuple[Node, str, str]]:
    """Nodes of ``every`` that wait for a metric: the node, the argument and the metric."""
    for _, node in phase.every.values():
        if isinstance(node, Node):
            for argument in _declared(node).watches:
                metric = node.arguments.get(argument)
                if isinstance(metric, str):
                    yield node, argument, metric


def _problem(where: str, phase: PhasePlan, plan: Plan, node: Node, metric: str) -> str:
    own, _ = next(entry for entry in phase.every.values() if entry[1] is node)
    names = [stage.path for _, stage in phase.every.values() if isinstance(stage, Node)]
    for period, other in phase.every.values():
        if isinstance(other, Node) and other is not node and _records(other, metric):
            if names.index(other.path) > names.index(node.path):
                return (
                    f"{where}.every runs {other.path} behind {node.path}: take {node.path} out "
                    f"('~{where}.every.{node.path}') and put it in again (+{where}.every."
                    f"{node.path}={own}), so that it comes last"
                )
            if period % own:
                return (
                    f"{where}.every runs {other.path} every {period} steps and {node.path} every "
                    f"{own}, which misses most of them; set {where}.every.{node.path}=1"
                )
    running: dict[str, Node] = {}
    collect((phase.lists(), phase.every), running)
    idle = [other for path, other in plan.nodes.items() if path not in running]
    for other in idle:
        if _records(other, metric) and not _declared(other).writes:
            return (
                f"{where} does not run {other.path}: set +{where}.every.{other.path}=25, or name "
                "another metric"
            )
    return ""


def _records(node: Node, metric: str) -> bool:
    """Return whether a metric begins with the name of a node."""
    names = (node.path, node.arguments.get("name"))
    return any(metric.startswith(f"{name}/") for name in names if isinstance(name, str))


def _declared(node: Node) -> Declaration:
    try:
        return declare(node.target)
    except ConfigError:  # told by the check of arguments
        return Declaration(node.target)

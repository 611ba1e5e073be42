"""Check that the metrics that parts of ``every`` wait for are recorded before they run."""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import PhasePlan, Plan, collect
from rlcomp.config.reader import Node


def check_watched(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each metric (``watches``) that its part would never see or mostly miss.

    The node that records ``evaluation/sampled`` is called ``evaluation``, by its path or by its
    argument ``name``. The metrics of other stages are unknown before they run.
    """
    for name, phase in plan.phases.items():
        for node, argument, metric in _watched_metrics(phase):
            if fault := _problem(f"phases.{name}", phase, plan, node, metric):
                yield refuse(f"{node.path}.{argument} is {metric!r}, but {fault}")


def _watched_metrics(phase: PhasePlan) -> Iterator[tuple[Node, str, str]]:
    """Yield the nodes of ``every`` that wait for a metric, with the argument and the metric."""
    for _, node in phase.every.values():
        if isinstance(node, Node):
            for argument in node.declaration.watches:
                metric = node.arguments.get(argument)
                if isinstance(metric, str):
                    yield node, argument, metric


def _problem(where: str, phase: PhasePlan, plan: Plan, node: Node, metric: str) -> str:
    """Return why a node would not see a metric; empty if it sees it."""
    own_period, _ = next(entry for entry in phase.every.values() if entry[1] is node)
    names = [stage.path for _, stage in phase.every.values() if isinstance(stage, Node)]
    for period, other in phase.every.values():
        if isinstance(other, Node) and other is not node and _records(other, metric):
            if names.index(other.path) > names.index(node.path):
                return (
                    f"{where}.every runs {other.path} behind {node.path}: take {node.path} out "
                    f"('~{where}.every.{node.path}') and put it in again (+{where}.every."
                    f"{node.path}={own_period}), so that it comes last"
                )
            if period % own_period:
                return (
                    f"{where}.every runs {other.path} every {period} steps and {node.path} every "
                    f"{own_period}, which misses most of them; set {where}.every.{node.path}=1"
                )
    running: dict[str, Node] = {}
    collect((phase.lists(), phase.every), running)
    idle = [other for path, other in plan.nodes.items() if path not in running]
    for other in idle:
        if _records(other, metric) and not other.declaration.writes:
            return (
                f"{where} does not run {other.path}: set +{where}.every.{other.path}=25, or name "
                "another metric"
            )
    return ""


def _records(node: Node, metric: str) -> bool:
    """Return whether a metric begins with the name of a node."""
    names = (node.path, node.arguments.get("name"))
    return any(metric.startswith(f"{name}/") for name in names if isinstance(name, str))

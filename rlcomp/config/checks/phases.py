"""Checks of phases: what their parts need of earlier phases, and metrics that parts wait for."""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import PhasePlan, Plan, collect, nodes_in
from rlcomp.config.reader import Node


def check_prerequisites(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each part of a phase whose prerequisite no earlier phase has run.

    The prerequisites are the arguments that a class names in ``earlier`` (the snapshot of a
    restore, the store of collected rows, the model of a trained scorer). An earlier phase with
    steps, or an earlier entry of ``on_begin`` of the same phase, has to run them.
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
            yield from _unmet(f"phases.{name}.on_begin", node, finished)
            collect(node, finished)
        running: dict[str, Node] = {}
        collect((phase.lists(), phase.every), running)
        for node in running.values():
            yield from _unmet(f"phases.{name}", node, finished)
        finished |= running if phase.steps else {}


def _unmet(where: str, node: Node, finished: dict[str, Node]) -> Iterator[Finding]:
    """Yield a finding on each prerequisite of a node that is not among the finished nodes."""
    prerequisites = [node.arguments.get(name) for name in node.declaration.earlier]
    for other in nodes_in(prerequisites):
        if other.path not in finished:
            yield refuse(
                f"{where}: {node.path} ({node.declaration.name}) needs {other.path}, but no "
                f"earlier phase runs it; give {other.path} a phase, and set "
                f"{where.removesuffix('.on_begin')}.after=..."
            )


def check_watched_metrics(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each metric (``watches``) that its part would never see or mostly miss.

    The node that records ``evaluation/sampled`` is called ``evaluation``, by its path or by its
    argument ``name``. The metrics of other stages are unknown before they run.
    """
    for name, phase in plan.phases.items():
        for _, node in phase.every.values():
            for argument in node.declaration.watches if isinstance(node, Node) else ():
                metric = node.arguments.get(argument)
                if isinstance(metric, str) and (
                    fault := _metric_fault(f"phases.{name}", phase, plan, node, metric)
                ):
                    yield refuse(f"{node.path}.{argument} is {metric!r}, but {fault}")


def _metric_fault(where: str, phase: PhasePlan, plan: Plan, node: Node, metric: str) -> str:
    """Return why a node would not see a metric; an empty text if it would."""
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
    for path, other in plan.nodes.items():
        if path not in running and _records(other, metric) and not other.declaration.writes:
            return (
                f"{where} does not run {path}: set +{where}.every.{path}=25, or name another metric"
            )
    return ""


def _records(node: Node, metric: str) -> bool:
    """Return whether a metric begins with the name of a node."""
    names = (node.path, node.arguments.get("name"))
    return any(metric.startswith(f"{name}/") for name in names if isinstance(name, str))

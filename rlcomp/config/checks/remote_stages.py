"""Stages of a plan that run on the workers of a cluster, and the check of their choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rlcomp.config.checks.async_rollout import check_free
from rlcomp.config.declare import declare
from rlcomp.config.flow_source import flow_of, ran
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node
from rlcomp.errors import nearest


def remote_runs(plan: Plan) -> list[tuple[str, ...]]:
    """Return the paths of stages that run on workers together, in order.

    They are those of ``cluster.remote``, or, where it is null, the one that rolls out prompts in
    each list of stages; none without a cluster.
    """
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return []
    named = cluster.arguments.get("remote")
    if named is not None:
        return [tuple(named)]
    runs = [(node.path,) for each in _lists(plan) for node in each if _rolls_out(node)]
    return list(dict.fromkeys(runs))


def marks(plan: Plan) -> dict[str, str]:
    """Return the workers of remote stages, by path: ``@local x2``, ``@local x2 free``."""
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return {}
    kind = cluster.target.split(".")[-2]
    count = cluster.arguments.get("workers", 1)
    free = " free" if cluster.arguments.get("schedule") == "free" else ""
    return {path: f"@{kind} x{count}{free}" for run in remote_runs(plan) for path in run}


def check_remote(plan: Plan) -> list[str]:
    """Return the mistakes in the choice of remote stages."""
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return []
    named = cluster.arguments.get("remote")
    if named is None:
        if runs := remote_runs(plan):
            return check_free(plan, runs)
        return [
            "cluster: no stage of this run rolls prompts out: set cluster=none, or name stages in "
            "cluster.remote"
        ]
    if not isinstance(named, list) or not named:
        return []  # told by the check of arguments
    lists = [[node.path for node in each] for each in _lists(plan)]
    if told := _not_together(named, lists):
        return [told]
    first = next(n for each in _lists(plan) for n in each if n.path == named[0])
    if not flow_of(first).fresh:
        return [
            f"cluster.remote begins with {named[0]}, which starts no new batch: all that it reads "
            "would have to travel; begin with the stage that rolls out"
        ]
    return check_free(plan, remote_runs(plan))


def _not_together(named: Sequence[str], lists: Sequence[Sequence[str]]) -> str | None:
    known = {path for each in lists for path in each}
    for name in named:
        if name not in known:
            return f"cluster.remote names {name!r}, which is no stage{nearest(str(name), known)}"
    together = [each for each in lists if named[0] in each]
    for each in together:
        at = each.index(named[0])
        if list(each[at : at + len(named)]) != list(named):
            inside = ", ".join(each[at : at + len(named)])
            return (
                f"cluster.remote is {', '.join(named)}, but these are not consecutive stages of "
                f"one list: there it goes {inside}, and a loop (refill) is remote as a whole or "
                f"not at all; set cluster.remote=[{each[at]}], or name the loop itself"
            )
    return None


def _lists(plan: Plan) -> Iterator[list[Node]]:
    """Yield every list of stages, also the lists of loops."""
    for phase in plan.phases.values():
        for stages in phase.lists():
            yield from _inside(stages)


def _inside(stages: Sequence[Any]) -> Iterator[list[Node]]:
    nodes = [stage for stage in stages if isinstance(stage, Node)]
    yield nodes
    for node in nodes:
        if isinstance(node.arguments.get("stages"), list):
            yield from _inside(ran(node, declare(node.target)))


def _rolls_out(node: Node) -> bool:
    flow = flow_of(node)
    loops = isinstance(node.arguments.get("stages"), list)
    return flow.fresh and not loops and "rollout_log_probs" in flow.writes

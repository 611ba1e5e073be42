"""Stages of a plan that run on the workers of a cluster, and their check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rlcomp.config.checks.async_rollout import check_free
from rlcomp.config.finding import Finding, refuse
from rlcomp.config.flow_source import flow_of, ran
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node
from rlcomp.errors import nearest

_NO_ROLLOUT = (
    "cluster: no stage of this run rolls prompts out: set cluster=none, or name stages in "
    "cluster.remote"
)


def remote_runs(plan: Plan) -> list[tuple[str, ...]]:
    """Return the paths of the stages that run on workers; the stages of a tuple run together.

    ``cluster.remote`` names them. If it is null, they are the stages that roll out prompts, one in
    each list of stages. Without a cluster there are none.
    """
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return []
    remote = cluster.arguments.get("remote")
    if remote is not None:
        return [tuple(remote)]
    groups = [(node.path,) for stages in _lists(plan) for node in stages if _rolls_out(node)]
    return list(dict.fromkeys(groups))


def marks(plan: Plan) -> dict[str, str]:
    """Return the workers of remote stages, by path: ``@local x2``, ``@local x2 free``."""
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return {}
    kind = cluster.target.split(".")[-2]
    count = cluster.arguments.get("workers", 1)
    free = " free" if cluster.arguments.get("schedule") == "free" else ""
    return {path: f"@{kind} x{count}{free}" for group in remote_runs(plan) for path in group}


def check_remote(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each mistake in the choice of remote stages."""
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return
    remote = cluster.arguments.get("remote")
    if remote is not None and (not isinstance(remote, list) or not remote):
        return  # the check of arguments reports it
    if message := _choice_fault(plan, remote):
        yield refuse(message)
    else:
        yield from check_free(plan, remote_runs(plan))


def _choice_fault(plan: Plan, remote: Sequence[str] | None) -> str | None:
    """Return why the stages of ``cluster.remote`` cannot run on workers; None: they can."""
    if remote is None:
        return None if remote_runs(plan) else _NO_ROLLOUT
    lists = [*_lists(plan)]
    paths = [[node.path for node in stages] for stages in lists]
    if message := _order_fault(remote, paths):
        return message
    first = next(node for stages in lists for node in stages if node.path == remote[0])
    if flow_of(first).fresh:
        return None
    return (
        f"cluster.remote begins with {remote[0]}, which starts no new batch, so that all that "
        f"{remote[0]} reads would have to travel; begin with the stage that rolls out"
    )


def _order_fault(remote: Sequence[str], lists: Sequence[Sequence[str]]) -> str | None:
    """Return why paths are no consecutive stages of one list; None: they are."""
    known = {path for stages in lists for path in stages}
    for path in remote:
        if path not in known:
            return f"cluster.remote names {path!r}, which is no stage{nearest(str(path), known)}"
    for stages in lists:
        start = stages.index(remote[0]) if remote[0] in stages else None
        if start is not None and list(stages[start : start + len(remote)]) != list(remote):
            actual = ", ".join(stages[start : start + len(remote)])
            return (
                f"cluster.remote is {', '.join(remote)}, but these are not consecutive stages of "
                f"one list: the list has {actual}, and a loop (refill) is remote as a whole or "
                f"not at all; set cluster.remote=[{remote[0]}], or name the loop itself"
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
            yield from _inside(ran(node))


def _rolls_out(node: Node) -> bool:
    flow = flow_of(node)
    loops = isinstance(node.arguments.get("stages"), list)
    return flow.fresh and not loops and "rollout_log_probs" in flow.writes

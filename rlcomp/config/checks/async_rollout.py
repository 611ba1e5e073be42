"""Check of ``cluster.schedule=free``: asynchronous rollouts need a plan that corrects for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlcomp.config.declare import declare
from rlcomp.config.plan import PhasePlan, Plan, below
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigError

_COPY = "old_log_probs.FromRollout"
_GROUP = "components.collector.group.GroupCollector"
_OURS = "components.collector."


def check_free(plan: Plan, runs: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the mistakes of a plan under ``cluster.schedule=free``, with the remedies.

    Args:
        plan: of the run.
        runs: the paths of stages that run on workers together.
    """
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node) or cluster.arguments.get("schedule") != "free":
        return []
    messages = [told for run in runs for told in _of_run(plan, run)]
    if plan.tree.get("sampler_engine"):
        messages.append(
            "cluster.schedule is free, and sampler_engine decodes: only our own decode loop takes "
            "new weights between steps; set sampler_engine=own, or cluster.schedule=fixed"
        )
    if any(node.arguments.get("keep_routing") == "rollout" for node in plan.nodes.values()):
        messages.append(
            "cluster.schedule is free, and decoding.keep_routing is rollout: no routes are "
            "recorded of rows in refilled seats; set decoding.keep_routing=none, or "
            "cluster.schedule=fixed"
        )
    return messages


def _of_run(plan: Plan, run: tuple[str, ...]) -> Iterator[str]:
    if len(run) > 1:
        yield (
            f"cluster.schedule is free, and cluster.remote is {', '.join(run)}: groups come back "
            "one by one, and only the collector runs on workers; set cluster.remote=null, or "
            "cluster.schedule=fixed"
        )
        return
    phases = [phase for phase in plan.phases.values() if _holds(phase, run[0])]
    if told := _refills_no_seats(plan, run[0]):
        yield told
    for phase in phases:
        yield from _of_phase(phase, run[0])


def _of_phase(phase: PhasePlan, path: str) -> Iterator[str]:
    stages = [stage for stage in phase.all_stages() if isinstance(stage, Node)]
    if path not in {stage.path for stage in stages}:
        loop = next(stage.path for stage in stages if path in _paths(stage))
        yield (
            f"cluster.schedule is free, and {path} stands in {loop}, which asks until it has "
            "enough: the groups of one round would be consumed in another; set "
            "dynamic_sampling=none, or cluster.schedule=fixed"
        )
    nodes = [node for stage in stages for node in _all(stage)]
    rollout = next(node for node in nodes if node.path == path)
    losses = {node.path: node for node in nodes if _of_policy(node)}
    copies = any(node.target.endswith(_COPY) for node in nodes)
    for loss in losses.values():
        if not _corrects(loss, copies):
            yield _uncorrected(loss.path)
    if not losses and any(_trains(node, rollout) for node in nodes):
        yield _uncorrected(path)


def _trains(node: Node, rollout: Node) -> bool:
    """Return whether a learner changes the model that a stage rolls out with."""
    model = node.arguments.get("model")
    if "losses" not in node.arguments or not isinstance(model, Node):
        return False
    return model.path in _paths(rollout)


def _uncorrected(path: str) -> str:
    return (
        f"cluster.schedule is free, and {path} takes tokens of older weights for tokens of now: "
        "set recipe=areal_decoupled; or old_log_probs=recomputed loss/weight=[tis]; or "
        "old_log_probs=rollout with a ratio (loss/ratio=token); or cluster.schedule=fixed with "
        "cluster.staleness=0"
    )


def _corrects(loss: Node, copied: bool) -> bool:
    """Return whether each token is weighed against the log-prob that it was drawn with.

    Args:
        loss: of the policy.
        copied: whether the old log-probs are those of the rollout.
    """
    wanted = {"log_probs" if copied else "rollout_log_probs", "old_log_probs"}
    return any(wanted <= _reads(node) for node in below(loss))


def _reads(node: Node) -> set[str]:
    try:
        return {*declare(node.target).reads}
    except ConfigError:
        return set()  # told elsewhere


def _of_policy(node: Node) -> bool:
    return {"ratio", "trust_region"} <= node.arguments.keys()


def _refills_no_seats(plan: Plan, path: str) -> str | None:
    node = plan.nodes[path]
    inner = node.arguments.get("collector")
    target = inner.target if isinstance(inner, Node) else node.target
    if target == _GROUP or not target.startswith(_OURS):
        return None  # collectors of one's own say so themselves
    return (
        f"cluster.schedule is free, and {path} ({declare(target).name}) does not refill seats: set "
        f"collector@{path}=group, or cluster.schedule=fixed"
    )


def _holds(phase: PhasePlan, path: str) -> bool:
    return any(path in _paths(s) for s in phase.all_stages() if isinstance(s, Node))


def _paths(stage: Node) -> set[str]:
    return {node.path for node in _all(stage)}


def _all(stage: Node) -> list[Node]:
    return [stage, *below(stage)]

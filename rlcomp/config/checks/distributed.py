"""Checks of runs on several processes: workers of a cluster, and ranks of ``torchrun``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rlcomp.config.checks.suspicious_values import LOG_PROB_COPY
from rlcomp.config.finding import Finding, refuse
from rlcomp.config.flow_source import flow_of, run_children
from rlcomp.config.plan import PhasePlan, Plan, below
from rlcomp.config.reader import Node
from rlcomp.errors import nearest

# The collector that refills decode slots.
_GROUP = "components.collector.group.GroupCollector"
_ADAPTERS = "rlcomp.model.adapters."
# Arguments of every learner of a language model.
_LEARNER_ARGUMENTS = {"model", "losses", "optimizer"}


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
    groups = [(node.path,) for stages in _stage_lists(plan) for node in stages if _rolls_out(node)]
    return list(dict.fromkeys(groups))


def worker_labels(plan: Plan) -> dict[str, str]:
    """Return the workers of remote stages, by path: ``@local x2``, ``@local x2 free``."""
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return {}
    kind = cluster.target.split(".")[-2]
    count = cluster.arguments.get("workers", 1)
    free = " free" if cluster.arguments.get("schedule") == "free" else ""
    return {path: f"@{kind} x{count}{free}" for group in remote_runs(plan) for path in group}


def _stage_lists(plan: Plan) -> Iterator[list[Node]]:
    """Yield every list of stages, also the lists of loops."""
    for phase in plan.phases.values():
        for stages in phase.lists():
            yield from _nested_stage_lists(stages)


def _nested_stage_lists(stages: Sequence[Any]) -> Iterator[list[Node]]:
    nodes = [stage for stage in stages if isinstance(stage, Node)]
    yield nodes
    for node in nodes:
        if isinstance(node.arguments.get("stages"), list):
            yield from _nested_stage_lists(run_children(node))


def _rolls_out(node: Node) -> bool:
    flow = flow_of(node)
    loops = isinstance(node.arguments.get("stages"), list)
    return flow.fresh and not loops and "rollout_log_probs" in flow.writes


def check_remote_stages(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each mistake in the choice and the schedule of remote stages."""
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node):
        return
    remote = cluster.arguments.get("remote")
    if remote is not None and (not isinstance(remote, list) or not remote):
        return  # the check of arguments reports it
    if message := _choice_fault(plan, remote):
        yield refuse(message)
    elif cluster.arguments.get("schedule") == "free":
        yield from map(refuse, _async_faults(plan))


def _choice_fault(plan: Plan, remote: Sequence[str] | None) -> str | None:
    """Return why the stages of ``cluster.remote`` cannot run on workers; None: they can."""
    if remote is None and remote_runs(plan):
        return None
    if remote is None:
        return (
            "cluster: no stage of this run rolls prompts out: set cluster=none, or name stages in "
            "cluster.remote"
        )
    lists = [*_stage_lists(plan)]
    if message := _order_fault(remote, [[node.path for node in stages] for stages in lists]):
        return message
    first = next(node for stages in lists for node in stages if node.path == remote[0])
    if flow_of(first).fresh:
        return None
    return (
        f"cluster.remote begins with {remote[0]}, which starts no new batch, so that its "
        "whole input would be sent to the workers; begin with the stage that rolls out"
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


def _async_faults(plan: Plan) -> Iterator[str]:
    """Yield a message on each mistake of a plan under ``cluster.schedule=free``."""
    for group in remote_runs(plan):
        yield from _group_faults(plan, group)
    if plan.tree.get("sampler_engine"):
        yield (
            "cluster.schedule is free, and sampler_engine decodes: only our own decode loop takes "
            "new weights between steps; set sampler_engine=own, or cluster.schedule=fixed"
        )
    if any(node.arguments.get("keep_routing") == "rollout" for node in plan.nodes.values()):
        yield (
            "cluster.schedule is free, and decoding.keep_routing is rollout: no routes are "
            "recorded of rows in refilled decode slots; set decoding.keep_routing=none, or "
            "cluster.schedule=fixed"
        )


def _group_faults(plan: Plan, group: tuple[str, ...]) -> Iterator[str]:
    """Yield a message on each mistake of a group of stages that run on workers together."""
    if len(group) > 1:
        yield (
            f"cluster.schedule is free, and cluster.remote is {', '.join(group)}: answer groups "
            "come back one by one, and only the collector runs on workers; set "
            "cluster.remote=null, or cluster.schedule=fixed"
        )
        return
    path = group[0]
    node = plan.nodes[path]
    inner = node.arguments.get("collector")
    target = inner.target if isinstance(inner, Node) else node.target
    # A user's collector checks itself.
    if target != _GROUP and target.startswith("components.collector."):
        yield (
            f"cluster.schedule is free, and {path} ({target.rpartition('.')[2]}) does not refill "
            f"decode slots: set collector@{path}=group, or cluster.schedule=fixed"
        )
    for phase in plan.phases.values():
        if any(path in _paths(s) for s in phase.listed_stages() if isinstance(s, Node)):
            yield from _phase_faults(phase, path)


def _phase_faults(phase: PhasePlan, path: str) -> Iterator[str]:
    """Yield a message on each mistake of a phase whose stage ``path`` runs on workers."""
    stages = [stage for stage in phase.listed_stages() if isinstance(stage, Node)]
    if path not in {stage.path for stage in stages}:
        loop = next(stage.path for stage in stages if path in _paths(stage))
        yield (
            f"cluster.schedule is free, and {path} is inside {loop}, which samples until it has "
            "enough: the groups of one round would be consumed in another; set "
            "dynamic_sampling=none, or cluster.schedule=fixed"
        )
    nodes = [node for stage in stages for node in (stage, *below(stage))]
    rollout = next(node for node in nodes if node.path == path)
    losses = {n.path: n for n in nodes if {"ratio", "trust_region"} <= n.arguments.keys()}
    is_copied = any(node.target.endswith(LOG_PROB_COPY) for node in nodes)
    for loss in losses.values():
        if not _is_corrected(loss, is_copied):
            yield _uncorrected_message(loss.path)
    if not losses and any(_trains(node, rollout) for node in nodes):
        yield _uncorrected_message(path)


def _trains(node: Node, rollout: Node) -> bool:
    """Return whether a node is a learner of the model that a stage samples from."""
    model = node.arguments.get("model")
    return "losses" in node.arguments and isinstance(model, Node) and model.path in _paths(rollout)


def _is_corrected(loss: Node, is_copied: bool) -> bool:
    """Return whether a loss weighs each token by the log-prob under which it was sampled.

    Args:
        loss: a policy loss.
        is_copied: whether old_log_probs are the log-probs of the rollout.
    """
    keys = {"log_probs" if is_copied else "rollout_log_probs", "old_log_probs"}
    return any(keys <= {*node.declaration.reads} for node in below(loss))


def _uncorrected_message(path: str) -> str:
    return (
        f"cluster.schedule is free, and {path} treats tokens of older weights as on-policy: "
        "set recipe=areal_decoupled; or old_log_probs=recomputed loss/weight=[tis]; or "
        "old_log_probs=rollout with a ratio (loss/ratio=token); or cluster.schedule=fixed with "
        "cluster.staleness=0"
    )


def _paths(stage: Node) -> set[str]:
    """Return the paths of a stage and of its parts."""
    return {node.path for node in (stage, *below(stage))}


def check_ranks(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each part of a plan that cannot run under ``parallel``."""
    parallel = plan.nodes.get("parallel")
    if parallel is None:
        return
    learners, strategy = shared_learners(plan), parallel.declaration.name
    if not learners:
        yield refuse(
            f"parallel ({strategy}): no learner of this recipe reads rows of tokens with a model "
            "of its own, so there is nothing to share (control, or a natural gradient): use "
            "parallel=none, without torchrun; several seeds at once: rlcomp -m seed=0,1"
        )
    if strategy in ("Shard", "Hybrid"):
        for node in learners:
            yield from map(refuse, _sharding_faults(node))


def shared_learners(plan: Plan) -> list[Node]:
    """Return the learners of a plan whose steps ranks share."""
    return [
        node
        for node in plan.nodes.values()
        if node.declaration.parameters.keys() >= _LEARNER_ARGUMENTS
        and isinstance(node.arguments.get("model"), Node)
    ]


def describe_ranks(plan: Plan) -> list[str]:
    """Return one line on how ranks share a plan; no line if a run is one process."""
    parallel = plan.nodes.get("parallel")
    if parallel is None:
        return []
    names = ", ".join(node.path for node in shared_learners(plan))
    return [
        f"ranks of torchrun ({parallel.declaration.name}): rank 0 runs all stages; every rank "
        f"runs a share of the passes of {names}, and of scoring by their models"
    ]


def _sharding_faults(learner: Node) -> Iterator[str]:
    """Yield a message on each property of a learner that forbids sharded weights."""
    if "aggregator" in learner.declaration.parameters:
        yield (
            f"{learner.path} ({learner.declaration.name}) compares whole gradients of objectives, "
            "but parallel=shard splits them: use parallel=replicate"
        )
    adapters = [node.path for node in below(learner) if node.target.startswith(_ADAPTERS)]
    if adapters:
        yield (
            f"{learner.path} trains adapters ({adapters[0]}), but parallel=shard trains all "
            "weights that it splits: use parallel=replicate, or adapter=none"
        )

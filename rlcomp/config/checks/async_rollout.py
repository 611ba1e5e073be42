"""Check of ``cluster.schedule=free``: asynchronous rollouts need a plan that corrects for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import PhasePlan, Plan, below
from rlcomp.config.reader import Node

# The part that copies the sampler's log-probs to old_log_probs.
_COPY = "old_log_probs.RolloutLogProbs"
# The collector that refills decode slots.
_GROUP = "components.collector.group.GroupCollector"
_OURS = "components.collector."


def check_free(plan: Plan, groups: Sequence[tuple[str, ...]]) -> Iterator[Finding]:
    """Yield a finding on each mistake of a plan under ``cluster.schedule=free``.

    Args:
        plan: plan of the run.
        groups: paths of the stages that run on workers; those of a group run together.
    """
    cluster = plan.tree.get("cluster")
    if not isinstance(cluster, Node) or cluster.arguments.get("schedule") != "free":
        return
    for group in groups:
        yield from map(refuse, _group_faults(plan, group))
    if plan.tree.get("sampler_engine"):
        yield refuse(
            "cluster.schedule is free, and sampler_engine decodes: only our own decode loop takes "
            "new weights between steps; set sampler_engine=own, or cluster.schedule=fixed"
        )
    if any(node.arguments.get("keep_routing") == "rollout" for node in plan.nodes.values()):
        yield refuse(
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
    if target != _GROUP and target.startswith(_OURS):  # a user's collector checks itself
        yield (
            f"cluster.schedule is free, and {path} ({target.rpartition('.')[2]}) does not refill "
            f"decode slots: set collector@{path}=group, or cluster.schedule=fixed"
        )
    for phase in plan.phases.values():
        if any(path in _paths(s) for s in phase.all_stages() if isinstance(s, Node)):
            yield from _phase_faults(phase, path)


def _phase_faults(phase: PhasePlan, path: str) -> Iterator[str]:
    """Yield a message on each mistake of a phase whose stage ``path`` runs on workers."""
    stages = [stage for stage in phase.all_stages() if isinstance(stage, Node)]
    if path not in {stage.path for stage in stages}:
        loop = next(stage.path for stage in stages if path in _paths(stage))
        yield (
            f"cluster.schedule is free, and {path} stands in {loop}, which asks until it has "
            "enough: the groups of one round would be consumed in another; set "
            "dynamic_sampling=none, or cluster.schedule=fixed"
        )
    nodes = [node for stage in stages for node in (stage, *below(stage))]
    rollout = next(node for node in nodes if node.path == path)
    losses = {node.path: node for node in nodes if _is_policy_loss(node)}
    is_copied = any(node.target.endswith(_COPY) for node in nodes)
    for loss in losses.values():
        if not _is_corrected(loss, is_copied):
            yield _uncorrected_message(loss.path)
    if not losses and any(_trains(node, rollout) for node in nodes):
        yield _uncorrected_message(path)


def _trains(node: Node, rollout: Node) -> bool:
    """Return whether a node is a learner of the model that a stage samples from."""
    model = node.arguments.get("model")
    if "losses" not in node.arguments or not isinstance(model, Node):
        return False
    return model.path in _paths(rollout)


def _uncorrected_message(path: str) -> str:
    return (
        f"cluster.schedule is free, and {path} takes tokens of older weights for tokens of now: "
        "set recipe=areal_decoupled; or old_log_probs=recomputed loss/weight=[tis]; or "
        "old_log_probs=rollout with a ratio (loss/ratio=token); or cluster.schedule=fixed with "
        "cluster.staleness=0"
    )


def _is_corrected(loss: Node, is_copied: bool) -> bool:
    """Return whether a loss weighs each token by the log-prob under which it was sampled.

    Args:
        loss: a policy loss.
        is_copied: whether old_log_probs are the log-probs of the rollout.
    """
    keys = {"log_probs" if is_copied else "rollout_log_probs", "old_log_probs"}
    return any(keys <= {*node.declaration.reads} for node in below(loss))


def _is_policy_loss(node: Node) -> bool:
    return {"ratio", "trust_region"} <= node.arguments.keys()


def _paths(stage: Node) -> set[str]:
    """Return the paths of a stage and of its parts."""
    return {node.path for node in (stage, *below(stage))}

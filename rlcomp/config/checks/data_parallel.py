"""Check that the ranks of ``torchrun`` can share the learners of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import Plan, below
from rlcomp.config.reader import Node

_ADAPTERS = "rlcomp.model.adapters."
# Arguments of every learner of a language model.
_LEARNER_ARGUMENTS = {"model", "losses", "optimizer"}


def check_ranks(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each part of a plan that ``parallel`` cannot share."""
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
        f"has its share of the passes of {names}, and of scoring by what they train"
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

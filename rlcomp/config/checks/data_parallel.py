"""Check of the ranks of ``torchrun``: the parts of a plan that they can share."""

from __future__ import annotations

from rlcomp.config.declare import declare
from rlcomp.config.plan import Plan, below
from rlcomp.config.reader import Node
from rlcomp.errors import ConfigError

_ADAPTERS = ("rlcomp.model.adapters.", "rlcomp.model.quantized.")
_LEARNS = {"model", "losses", "optimizer"}


def check_ranks(plan: Plan) -> list[str]:
    """Return the parts of a plan that ``parallel`` cannot share, with the remedies."""
    parallel = plan.nodes.get("parallel")
    if parallel is None:
        return []
    learners, word = shared_learners(plan), f"parallel ({declare(parallel.target).name})"
    if not learners:
        return [
            f"{word}: no learner of this recipe reads rows of tokens with a model of its own, so "
            "there is nothing to share (control, or a natural gradient): use parallel=none, "
            "without torchrun; several seeds at once: rlcomp -m seed=0,1"
        ]
    if declare(parallel.target).name not in ("Shard", "Hybrid"):
        return []
    return [told for node in learners for told in _not_in_parts(node)]


def shared_learners(plan: Plan) -> list[Node]:
    """Return the learners of a plan whose steps ranks share."""
    return [
        node
        for node in plan.nodes.values()
        if _learns(node) and isinstance(node.arguments.get("model"), Node)
    ]


def ranks_told(plan: Plan) -> list[str]:
    """Describe how ranks share a plan, in a line; no line if a run is one process."""
    parallel = plan.nodes.get("parallel")
    if parallel is None:
        return []
    names = ", ".join(node.path for node in shared_learners(plan))
    return [
        f"ranks of torchrun ({declare(parallel.target).name}): rank 0 runs all stages; every rank "
        f"has its share of the passes of {names}, and of scoring by what they train"
    ]


def _learns(node: Node) -> bool:
    try:
        return declare(node.target).parameters.keys() >= _LEARNS
    except ConfigError:
        return False  # told elsewhere


def _not_in_parts(node: Node) -> list[str]:
    messages = []
    if "aggregator" in declare(node.target).parameters:
        messages.append(
            f"{node.path} ({declare(node.target).name}) compares whole gradients of objectives, "
            "and parallel=shard has parts of them: use parallel=replicate"
        )
    adapted = [n.path for n in below(node) if n.target.startswith(_ADAPTERS)]
    if adapted:
        messages.append(
            f"{node.path} trains adapters ({adapted[0]}), and parallel=shard puts weights into "
            "parts that are all trained: use parallel=replicate, or adapter=none"
        )
    return messages

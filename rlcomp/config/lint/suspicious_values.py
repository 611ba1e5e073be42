"""Check for legal but suspicious values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlcomp.config.checks.clip_range import are_ratios, clip_range
from rlcomp.config.finding import Finding, warn
from rlcomp.config.plan import Plan

# The part that takes the sampler's log-probs for the old log-probs of the policy.
_COPY = "old_log_probs.RolloutLogProbs"


def suspicious_values(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on every setting of a plan that is probably a mistake."""
    nodes = [node for node in plan.nodes.values() if not are_ratios(node)]
    yield from map(warn, filter(None, map(clip_range, nodes)))
    yield from map(warn, _identical_log_probs(plan))
    yield from map(warn, _undeclared_keys(plan))
    yield from map(warn, _shared_metric_names(plan))


def _identical_log_probs(plan: Plan) -> Iterator[str]:
    """Yield a message on parts that compare the rollout's log-probs with a copy of them."""
    slots = [node.path for node in plan.nodes.values() if node.target.endswith(_COPY)]
    for node in plan.nodes.values() if slots else ():
        reads = {*node.declaration.reads}
        if reads >= {"old_log_probs", "rollout_log_probs"} and "log_probs" not in reads:
            yield (
                f"{node.path} compares old_log_probs with rollout_log_probs, and "
                f"{slots[0]}=rollout makes them the same, so that it changes nothing: "
                f"set {slots[0]}=recomputed"
            )


def _shared_metric_names(plan: Plan) -> Iterator[str]:
    """Yield a message on learners and evaluators that record under one name."""
    paths: dict[str, list[str]] = {}
    for node in plan.nodes.values():
        name = node.arguments.get("name")
        if isinstance(name, str) and re.match(r"components\.(learner|evaluator)\.", node.target):
            paths.setdefault(name, []).append(node.path)
    for name, nodes in paths.items():
        if len(nodes) > 1:
            other = next(path for path in nodes if path.rpartition(".")[2] != name)
            yield (
                f"{' and '.join(nodes)} record their metrics under one name, {name}/...: set "
                f"{other}.name={other.rpartition('.')[2]}"
            )


def _undeclared_keys(plan: Plan) -> Iterator[str]:
    """Yield a message on each part whose ``forward`` reads undeclared keys."""
    for node in plan.nodes.values():
        declaration = node.declaration
        if keys := declaration.undeclared:
            yield (
                f"{node.path} ({declaration.name}) reads {', '.join(map(repr, keys))} without "
                "declaring it, so that no check finds it missing: write reads = "
                f"{(*declaration.reads, *keys)} in its class"
            )

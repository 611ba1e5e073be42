"""Checks for legal but suspicious values, and for clip ranges that can only be mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse, warn
from rlcomp.config.plan import Plan

# Trust regions whose clips are distances of the ratio from 1.
_CLIPS = tuple(
    f"trust_region.{name}" for name in ("clip.Clip", "clip.DualClip", "covariance.ClipCov")
)
# A larger distance is more likely the ratio itself; no clip allows a larger ratio.
_LARGEST_DISTANCE, _LARGEST_RATIO = 0.5, 2
# The part that copies the sampler's log-probs to old_log_probs.
LOG_PROB_COPY = "old_log_probs.RolloutLogProbs"


def check_clips(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each clip whose bounds look like ratios: they are distances from 1.

    Bounds such as 0.8 and 1.2 can only be ratios, and are refused; others are warned of.
    """
    for node in plan.nodes.values():
        low, high = (node.arguments.get(name) for name in ("clip_low", "clip_high"))
        if not node.target.endswith(_CLIPS):
            continue
        if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
            continue
        if low < _LARGEST_DISTANCE and high < 1:
            continue
        level = refuse if _LARGEST_DISTANCE <= low < 1 < high < _LARGEST_RATIO else warn
        likely_low = 1 - low if low >= _LARGEST_DISTANCE else low
        likely_high = high - 1 if high >= 1 else high
        path = node.path
        yield level(
            f"{path}.clip_low is {low:g} and {path}.clip_high is {high:g}: these are distances "
            f"from 1, so that the ratio is held in [{1 - low:g}, {1 + high:g}]; for "
            f"[{1 - likely_low:g}, {1 + likely_high:g}] set {path}.clip_low={likely_low:g} "
            f"{path}.clip_high={likely_high:g}"
        )


def check_identical_log_probs(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each part that compares the rollout's log-probs with a copy of them."""
    copies = [node.path for node in plan.nodes.values() if node.target.endswith(LOG_PROB_COPY)]
    for node in plan.nodes.values() if copies else ():
        reads = {*node.declaration.reads}
        if reads >= {"old_log_probs", "rollout_log_probs"} and "log_probs" not in reads:
            yield warn(
                f"{node.path} compares old_log_probs with rollout_log_probs, and "
                f"{copies[0]}=rollout makes them the same, so that it changes nothing: "
                f"set {copies[0]}=recomputed"
            )


def check_undeclared_keys(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each part whose ``forward`` reads undeclared keys."""
    for node in plan.nodes.values():
        declaration = node.declaration
        if keys := declaration.undeclared:
            yield warn(
                f"{node.path} ({declaration.name}) reads {', '.join(map(repr, keys))} without "
                "declaring it, so that no check finds it missing: write reads = "
                f"{(*declaration.reads, *keys)} in its class"
            )


def check_metric_names(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on learners and evaluators that record under one name."""
    paths: dict[str, list[str]] = {}
    for node in plan.nodes.values():
        name = node.arguments.get("name")
        if isinstance(name, str) and re.match(r"components\.(learner|evaluator)\.", node.target):
            paths.setdefault(name, []).append(node.path)
    for name, nodes in paths.items():
        if len(nodes) > 1:
            other = next(path for path in nodes if path.rpartition(".")[2] != name)
            yield warn(
                f"{' and '.join(nodes)} record their metrics under one name, {name}/...: set "
                f"{other}.name={other.rpartition('.')[2]}"
            )

"""Settings that can be meant, and hardly are: told before anything is built."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence

from rlcomp.errors import RlcompWarning
from rlcomp.wiring.declare import declare
from rlcomp.wiring.origin import trace
from rlcomp.wiring.plan import Plan
from rlcomp.wiring.reader import Node

# Trust regions whose clips are distances of the ratio from 1.
_DISTANCES = ("clip.Clip", "dual_clip.DualClip", "clip_cov.ClipCov")
# Beyond it a distance is more likely the ratio itself.
_FAR = 0.5
# Above it no clip holds a ratio.
_HIGHEST = 2
# What takes the sampler's log-probs for those of the policy before the update.
_COPY = "old_log_probs.rollout.FromRollout"


def tell_doubts(plan: Plan, words: Sequence[str] = ()) -> None:
    """Warn of every setting of a plan that is probably a mistake.

    Args:
        plan: of a run.
        words: its overrides.
    """
    nodes = [node for node in plan.nodes.values() if not _are_ratios(node)]
    for message in (
        *filter(None, map(_bounds, nodes)),
        *_alike(plan),
        *_undeclared(plan),
        *_named_alike(plan),
    ):
        warnings.warn(trace(message, plan.origins, words), RlcompWarning, stacklevel=2)


def check_bounds(plan: Plan) -> list[str]:
    """Errors where both bounds of a clip are ratios, 0.8 and 1.2: nobody means such distances."""
    return [told for node in plan.nodes.values() if _are_ratios(node) and (told := _bounds(node))]


def _are_ratios(node: Node) -> bool:
    low, high = (node.arguments.get(name) for name in ("clip_low", "clip_high"))
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return False
    return _FAR <= low < 1 < high < _HIGHEST


def _alike(plan: Plan) -> Iterator[str]:
    """Parts that hold the policy before the update against the sampler, of which it is a copy."""
    slots = [node.path for node in plan.nodes.values() if node.target.endswith(_COPY)]
    for node in plan.nodes.values() if slots else ():
        reads = {*declare(node.target).reads}
        if reads >= {"old_log_probs", "rollout_log_probs"} and "log_probs" not in reads:
            yield (
                f"{node.path} compares old_log_probs with rollout_log_probs, and "
                f"{slots[0]}=rollout makes them the same, so that it changes nothing: "
                f"set {slots[0]}=recomputed"
            )


def _named_alike(plan: Plan) -> Iterator[str]:
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


def _undeclared(plan: Plan) -> Iterator[str]:
    """Yield a message on each part whose ``forward`` reads undeclared keys."""
    for node in plan.nodes.values():
        declaration = declare(node.target)
        if keys := declaration.undeclared:
            yield (
                f"{node.path} ({declaration.name}) reads {', '.join(map(repr, keys))} without "
                "declaring it, so that no check finds it missing: write reads = "
                f"{(*declaration.reads, *keys)} in its class"
            )


def _bounds(node: Node) -> str | None:
    """Bounds of a ratio where distances from 1 are asked for."""
    low, high = (node.arguments.get(name) for name in ("clip_low", "clip_high"))
    clips = node.target.endswith(tuple(f"trust_region.{name}" for name in _DISTANCES))
    if not clips or not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return None
    if low < _FAR and high < 1:
        return None
    meant_low, meant_high = 1 - low if low >= _FAR else low, high - 1 if high >= 1 else high
    path = node.path
    return (
        f"{path}.clip_low is {low:g} and {path}.clip_high is {high:g}: these are distances from 1, "
        f"so that the ratio is held in [{1 - low:g}, {1 + high:g}]; for [{1 - meant_low:g}, "
        f"{1 + meant_high:g}] set {path}.clip_low={meant_low:g} {path}.clip_high={meant_high:g}"
    )

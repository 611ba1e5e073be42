"""Check of clip ranges, which are distances of the ratio from 1 and no ratios."""

from __future__ import annotations

from collections.abc import Iterator

from rlcomp.config.finding import Finding, refuse
from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node

# Trust regions whose clips are distances of the ratio from 1.
_DISTANCES = ("clip.Clip", "clip.DualClip", "covariance.ClipCov")
# A larger distance is more likely the ratio itself.
_LARGEST_DISTANCE = 0.5
# No clip allows a larger ratio.
_LARGEST_RATIO = 2


def check_clips(plan: Plan) -> Iterator[Finding]:
    """Yield a finding on each clip whose bounds, such as 0.8 and 1.2, can only be ratios."""
    for node in plan.nodes.values():
        if are_ratios(node) and (message := clip_range(node)):
            yield refuse(message)


def are_ratios(node: Node) -> bool:
    """Return whether the bounds of a clip can only be ratios."""
    low, high = (node.arguments.get(name) for name in ("clip_low", "clip_high"))
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return False
    return _LARGEST_DISTANCE <= low < 1 < high < _LARGEST_RATIO


def clip_range(node: Node) -> str | None:
    """Return the fault of a clip whose bounds are ratios, not distances from 1; None: no fault."""
    low, high = (node.arguments.get(name) for name in ("clip_low", "clip_high"))
    clips = node.target.endswith(tuple(f"trust_region.{name}" for name in _DISTANCES))
    if not clips or not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return None
    if low < _LARGEST_DISTANCE and high < 1:
        return None
    meant_low = 1 - low if low >= _LARGEST_DISTANCE else low
    meant_high = high - 1 if high >= 1 else high
    path = node.path
    return (
        f"{path}.clip_low is {low:g} and {path}.clip_high is {high:g}: these are distances from 1, "
        f"so that the ratio is held in [{1 - low:g}, {1 + high:g}]; for [{1 - meant_low:g}, "
        f"{1 + meant_high:g}] set {path}.clip_low={meant_low:g} {path}.clip_high={meant_high:g}"
    )

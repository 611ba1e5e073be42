"""Check of clip ranges: distances of the ratio from 1, which are easily taken for ratios."""

from __future__ import annotations

from rlcomp.config.plan import Plan
from rlcomp.config.reader import Node

# Trust regions whose clips are distances of the ratio from 1.
_DISTANCES = ("clip.Clip", "clip.DualClip", "clip_cov.ClipCov")
# Beyond it a distance is more likely the ratio itself.
_FAR = 0.5
# Above it no clip holds a ratio.
_HIGHEST = 2


def check_clips(plan: Plan) -> list[str]:
    """Return a message on each clip whose bounds, 0.8 and 1.2, must be ratios."""
    return [told for node in plan.nodes.values() if are_ratios(node) and (told := clip_range(node))]


def are_ratios(node: Node) -> bool:
    """Return whether the bounds of a clip are ratios, which nobody means as distances."""
    low, high = (node.arguments.get(name) for name in ("clip_low", "clip_high"))
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return False
    return _FAR <= low < 1 < high < _HIGHEST


def clip_range(node: Node) -> str | None:
    """Return a message on a clip whose bounds are ratios, not distances from 1; None: no fault."""
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

"""GUI actions: checks of the kind, the clicked point, the text and the element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlcomp.errors import DataError
from rlcomp.verify.boxes import is_box
from rlcomp.verify.short_answer import short_answer


def gui_action(given: object, truth: Mapping[str, object]) -> dict[str, float]:
    """Score each part of a GUI action with 1 (right) or 0.

    Args:
        given: ``{"action": "click", "point": [x, y], "text": "", "element": ""}``, from JSON.
        truth: ``action``, and optionally ``box`` ``[x1, y1, x2, y2]`` around the point (the edge
            counts), ``text``, equal except for case, punctuation and articles, and ``element``, an
            equal id.

    Returns:
        ``format`` (it is such an object) and ``action``; ``point``, ``text``, ``element`` if the
        truth has them; ``all`` of these. Parts of a wrong action are 0.

    Raises:
        DataError: the truth has no action, or its box is malformed.

    Source:
        Luo et al. 2025 (GUI-R1), arXiv:2504.10458, for the parts.

    Examples:
        >>> truth = {"action": "click", "box": [0, 0, 10, 10]}
        >>> gui_action({"action": "click", "point": [3, 12]}, truth)
        {'format': 1.0, 'action': 1.0, 'point': 0.0, 'all': 0.0}
    """
    _check(truth)
    is_action = isinstance(given, dict) and isinstance(given.get("action"), str)
    action = given if isinstance(given, dict) and given.get("action") == truth["action"] else {}
    parts = {"format": float(is_action), "action": float(bool(action))}
    if "box" in truth:
        parts["point"] = float(_is_inside(action.get("point"), truth["box"]))
    if "text" in truth:
        text = action.get("text")
        parts["text"] = short_answer(text, [str(truth["text"])]) if isinstance(text, str) else 0.0
    if "element" in truth:
        parts["element"] = float("element" in action and action["element"] == truth["element"])
    return {**parts, "all": float(all(parts.values()))}


def _is_inside(point: object, box: object) -> bool:
    if not isinstance(point, list) or len(point) != 2 or not isinstance(box, Sequence):
        return False
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in point):
        return False
    return bool(box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3])


def _check(truth: Mapping[str, object]) -> None:
    if not isinstance(truth.get("action"), str):
        raise DataError(f"the true action {dict(truth)!r:.200} has no 'action', such as 'click'")
    if "box" in truth and not is_box(truth["box"]):
        raise DataError(
            f"the box of the true action is {truth['box']!r:.80}: must be x1, y1, x2, y2"
        )

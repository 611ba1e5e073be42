"""Boxes on pictures and actions on screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from rlcomp.errors import DataError
from rlcomp.verify.short_answer import short_answer

Box = Sequence[float]

# The area of a box with larger coordinates is not exact in a float.
_LARGEST = 10**7


def is_box(value: object) -> TypeGuard[Box]:
    """Return whether a value is a box ``[x1, y1, x2, y2]`` with ``x1 < x2`` and ``y1 < y2``.

    The coordinates are numbers between -10^7 and 10^7.

    Examples:
        >>> is_box([0, 0, 2, 1]), is_box([2, 0, 0, 1]), is_box([0, 0, float("inf"), 1])
        (True, False, False)
    """
    if not isinstance(value, (list, tuple)) or len(value) != 4:
        return False
    numeric = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in value)
    return (
        numeric
        and all(abs(n) < _LARGEST for n in value)
        and value[0] < value[2]
        and value[1] < value[3]
    )


def area(box: Box) -> float:
    """Return the area of a box, 0 if ``x2 < x1`` or ``y2 < y1``."""
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _intersection(first: Box, second: Box) -> float:
    low, high = map(max, first[:2], second[:2]), map(min, first[2:], second[2:])
    return area([*low, *high])


def iou(first: Box, second: Box) -> float:
    """Compute the intersection over union, ``|A n B| / |A u B|`` in [0, 1].

    Examples:
        >>> iou([0, 0, 2, 2], [1, 0, 3, 2])
        0.3333333333333333
    """
    shared = _intersection(first, second)
    return shared / (area(first) + area(second) - shared)


def giou(first: Box, second: Box) -> float:
    """Compute the generalised IoU, ``IoU - (|C| - |A u B|) / |C|`` in (-1, 1].

    ``C`` is the smallest box around both.

    Source:
        Rezatofighi et al. 2019, arXiv:1902.09630.

    Examples:
        >>> giou([0, 0, 1, 1], [2, 0, 3, 1])
        -0.3333333333333333
    """
    around = area([*map(min, first[:2], second[:2]), *map(max, first[2:], second[2:])])
    union = area(first) + area(second) - _intersection(first, second)
    return iou(first, second) - (around - union) / around


def dice(first: Box, second: Box) -> float:
    """Compute the Dice coefficient, ``2 |A n B| / (|A| + |B|)`` in [0, 1].

    Examples:
        >>> dice([0, 0, 2, 2], [1, 0, 3, 2])
        0.5
    """
    return 2 * _intersection(first, second) / (area(first) + area(second))


def average_precision(
    boxes: Sequence[Box], scores: Sequence[float], truth: Sequence[Box], threshold: float
) -> float:
    """Compute the average precision of boxes of one class: the area under precision over recall.

    Boxes are taken in decreasing score. A box is a hit if its IoU with the best true box that is
    not yet matched reaches the threshold; that true box is then matched. The precision at a recall
    is the best one at that recall or a higher one (all points, COCO's limit).

    Args:
        boxes: predicted boxes.
        scores: score of each predicted box.
        truth: true boxes.
        threshold: least IoU of a hit, above 0.

    Returns:
        In [0, 1]; without true boxes 1 if no box is predicted, else 0.

    Examples:
        >>> truth = [[0, 0, 1, 1], [5, 0, 6, 1]]
        >>> average_precision([[9, 0, 10, 1], *truth], [0.9, 0.8, 0.7], truth, 0.5)
        0.6666666666666666
    """
    if not truth:
        return float(not boxes)
    hits, matched = [], set()
    for n in sorted(range(len(boxes)), key=lambda n: -scores[n]):
        overlaps = [-1.0 if m in matched else iou(boxes[n], gold) for m, gold in enumerate(truth)]
        best = max(range(len(truth)), key=overlaps.__getitem__)
        hits.append(overlaps[best] >= threshold)
        matched |= {best} if hits[-1] else set()
    precision = [sum(hits[: n + 1]) / (n + 1) for n in range(len(hits))]
    return sum(max(precision[n:]) for n, hit in enumerate(hits) if hit) / len(truth)


def mean_average_precision(
    boxes: Sequence[Box],
    scores: Sequence[float],
    labels: Sequence[str],
    truth: Sequence[Box],
    truth_labels: Sequence[str],
    thresholds: Sequence[float] = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
) -> float:
    """Compute the mAP: average precision, averaged over the classes and COCO's IoU thresholds.

    A class with predictions but without true boxes counts with 0. Without any box the value is 1.

    Source:
        Lin et al. 2014, arXiv:1405.0312.

    Examples:
        >>> mean_average_precision([[0, 0, 1, 1]], [1.0], ["cat"], [[0, 0, 1, 1]], ["cat"])
        1.0
    """
    classes = sorted({*labels, *truth_labels})
    total = 0.0
    for name in classes:
        indices = [n for n, label in enumerate(labels) if label == name]
        true = [box for box, label in zip(truth, truth_labels, strict=True) if label == name]
        class_boxes, class_scores = [boxes[n] for n in indices], [scores[n] for n in indices]
        for threshold in thresholds:
            total += average_precision(class_boxes, class_scores, true, threshold)
    return total / (len(classes) * len(thresholds)) if classes else 1.0


def keyframe_f1(frames: Sequence[float], truth: Sequence[float], tolerance: float) -> float:
    """Compute the F1 of key frames: a frame is right within the tolerance of a true frame.

    Predicted and true frames are paired in order of time, each at most once, as many as possible.

    Args:
        frames: predicted times or indices.
        truth: true times or indices, in the same unit.
        tolerance: largest distance of a pair, in that unit.

    Returns:
        In [0, 1]; 1 if both are empty.

    Examples:
        >>> keyframe_f1([1, 1.2, 9], [1, 5], tolerance=0.5)
        0.4
    """
    predicted, true = sorted(frames), sorted(truth)
    if not predicted and not true:
        return 1.0
    matched = i = j = 0
    while i < len(predicted) and j < len(true):
        if abs(predicted[i] - true[j]) <= tolerance:
            matched, i, j = matched + 1, i + 1, j + 1
        elif predicted[i] < true[j]:
            i += 1
        else:
            j += 1
    return 2 * matched / (len(predicted) + len(true))


def gui_action(action: object, truth: Mapping[str, object]) -> dict[str, float]:
    """Score each part of a GUI action with 1 (right) or 0.

    Args:
        action: ``{"action": "click", "point": [x, y], "text": "", "element": ""}``, from JSON.
        truth: ``action``, and optionally ``box`` ``[x1, y1, x2, y2]`` around the point (the edge
            is inside), ``text``, compared without case, punctuation and articles, and ``element``,
            compared exactly.

    Returns:
        ``format`` (the action is such an object) and ``action``; ``point``, ``text``, ``element``
        if the truth has them; and ``all``, 1 if every part is 1. If ``action`` is 0, the later
        parts are 0.

    Raises:
        DataError: the truth has no action, or its box is malformed.

    Source:
        Luo et al. 2025 (GUI-R1), arXiv:2504.10458, for the parts.

    Examples:
        >>> truth = {"action": "click", "box": [0, 0, 10, 10]}
        >>> gui_action({"action": "click", "point": [3, 12]}, truth)
        {'format': 1.0, 'action': 1.0, 'point': 0.0, 'all': 0.0}
    """
    _check_true_action(truth)
    entries = action if isinstance(action, dict) else {}
    right = entries if entries.get("action") == truth["action"] else {}
    parts = {"format": float(isinstance(entries.get("action"), str)), "action": float(bool(right))}
    if "box" in truth:
        parts["point"] = float(_is_inside(right.get("point"), truth["box"]))
    if "text" in truth:
        text = right.get("text")
        parts["text"] = short_answer(text, [str(truth["text"])]) if isinstance(text, str) else 0.0
    if "element" in truth:
        parts["element"] = float("element" in right and right["element"] == truth["element"])
    return {**parts, "all": float(all(parts.values()))}


def _is_inside(point: object, box: object) -> bool:
    if not isinstance(point, list) or len(point) != 2 or not isinstance(box, Sequence):
        return False
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in point):
        return False
    return bool(box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3])


def _check_true_action(truth: Mapping[str, object]) -> None:
    if not isinstance(truth.get("action"), str):
        raise DataError(f"the true action {dict(truth)!r:.200} has no 'action', such as 'click'")
    if "box" in truth and not is_box(truth["box"]):
        raise DataError(
            f"the box of the true action is {truth['box']!r:.80}: must be x1, y1, x2, y2"
        )

"""Rewards of boxes, detections and actions on a screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rlcomp.arguments import NonNegativeFloat, Probability
from rlcomp.errors import ConfigError, DataError, nearest
from rlcomp.files.json_lines import is_number
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import column, extract, read_json
from rlcomp.verify.boxes import (
    dice,
    giou,
    gui_action,
    iou,
    is_box,
    keyframe_f1,
    mean_average_precision,
)

_METRICS = {"iou": iou, "giou": giou, "dice": dice}


class BoxOverlap(TextReward):
    """Reward of a box: overlap of the response's box with the true one.

    The answer is JSON, ``[x1, y1, x2, y2]``. Anything else scores the minimum, 0 (GIoU: -1). Needs
    the column ``true_box``.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``box_overlap``. A box is correct if its metric is at least ``correct_from``.

    Args:
        metric: ``iou``, ``giou`` (differs between boxes that do not touch) or ``dice``.
        correct_from: least metric of a correct box.
        where: place of the answer after the thought: ``whole`` or ``tagged``.

    Raises:
        DataError: an example has no ``true_box``, or it is not a box.

    Source:
        Rezatofighi et al. 2019, arXiv:1902.09630 (GIoU).
    """

    name = "box_overlap"
    needs = ("true_box",)

    def __init__(
        self,
        *,
        metric: Literal["iou", "giou", "dice"] = "iou",
        correct_from: Probability = 0.5,
        where: Literal["whole", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        self.metric = metric
        self.correct_from = correct_from
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return the metric of both boxes."""
        truth = column(row, "true_box", "reward=box_overlap")
        if not is_box(truth):
            raise DataError(f"the column 'true_box' is {truth!r:.80}: must be [x1, y1, x2, y2]")
        box = read_json(extract(str(row["response"]), self.where))
        if not is_box(box):
            return -1.0 if self.metric == "giou" else 0.0
        return _METRICS[self.metric](box, truth)

    def is_correct(self, score: float) -> bool:
        """Return whether the metric is high enough."""
        return score >= self.correct_from


# Most boxes of an answer and of a truth: the time of matching grows with the product of both.
_MAX_BOXES = 300


class Detections(TextReward):
    """Reward of detections: mAP over classes and IoU thresholds .5, .55, ... .95.

    The answer is a JSON list of at most 300 ``{"box": [x1, y1, x2, y2], "label": text, "score":
    number}``. Without scores the boxes are ranked by their order. Anything else scores 0. Needs the
    column ``true_boxes``, a list of the same form and length limit, without scores.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``detections``.

    Args:
        correct_from: least mAP of a correct answer.
        where: place of the answer after the thought: ``whole`` or ``tagged``.

    Raises:
        DataError: an example has no ``true_boxes``, or they are no boxes or more than 300.

    Source:
        Lin et al. 2014 (COCO), arXiv:1405.0312.
    """

    name = "detections"
    needs = ("true_boxes",)

    def __init__(
        self, *, correct_from: Probability = 0.5, where: Literal["whole", "tagged"] = "tagged"
    ) -> None:
        super().__init__()
        self.correct_from = correct_from
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return the mean average precision."""
        truth = _detections(column(row, "true_boxes", "reward=detections"))
        if truth is None:
            raise DataError(
                f"the column 'true_boxes' is {row['true_boxes']!r:.80}: must be a list of at "
                f'most {_MAX_BOXES} {{"box": [x1, y1, x2, y2], "label": text}}'
            )
        boxes = _detections(read_json(extract(str(row["response"]), self.where)))
        return 0.0 if boxes is None else mean_average_precision(*boxes, truth[0], truth[2])

    def is_correct(self, score: float) -> bool:
        """Return whether the mAP is high enough."""
        return score >= self.correct_from


def _detections(entries: object) -> tuple[list[Any], list[float], list[str]] | None:
    """Return boxes, scores and labels of a list of detections; None if it is no such list."""
    if not isinstance(entries, list) or len(entries) > _MAX_BOXES:
        return None
    boxes, scores, labels = [], [], []
    for rank, entry in enumerate(entries):
        fields = entry if isinstance(entry, dict) else {}
        box, label, score = fields.get("box"), fields.get("label"), fields.get("score", -rank)
        if not is_box(box) or not isinstance(label, str) or not is_number(score):
            return None
        boxes.append(box)
        scores.append(float(score))
        labels.append(label)
    return boxes, scores, labels


class KeyFrames(TextReward):
    """Reward of key frames: F1 of the response's frames, each true one matched at most once.

    ``R = 2 M / (given + true)`` with ``M`` pairs whose distance is at most the tolerance; 1 if both
    lists are empty. The answer is a JSON list of times or indices; anything else scores 0. Needs
    the column ``true_frames``, a list in the same unit.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``key_frames``.

    Args:
        tolerance: largest distance of a matched pair, in the unit of the frames.
        where: place of the answer after the thought: ``whole`` or ``tagged``.

    Raises:
        DataError: an example has no ``true_frames``, or they are no numbers.
    """

    name = "key_frames"
    needs = ("true_frames",)

    def __init__(
        self,
        *,
        tolerance: NonNegativeFloat = 0.5,
        where: Literal["whole", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        self.tolerance = tolerance
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return the F1 of the frames."""
        truth = _numbers(column(row, "true_frames", "reward=key_frames"))
        if truth is None:
            raise DataError(
                f"the column 'true_frames' is {row['true_frames']!r:.80}: must be a list of numbers"
            )
        frames = _numbers(read_json(extract(str(row["response"]), self.where)))
        return 0.0 if frames is None else keyframe_f1(frames, truth, self.tolerance)


def _numbers(value: object) -> list[float] | None:
    if not isinstance(value, list):
        return None
    return [float(n) for n in value] if all(map(is_number, value)) else None


_PARTS = ("all", "format", "action", "point", "text", "element")


class GuiAction(TextReward):
    """Reward of a GUI action in named parts, each 1 if it is right, else 0.

    ``R = sum_k w_k R_k``. The answer is a JSON object ``{"action": "click", "point": [x, y],
    "text": ..., "element": ...}``. Needs the column ``true_action``, whose entries are compared
    (:func:`rlcomp.verify.boxes.gui_action`). The parts are the ``format``, the type of the
    ``action``, the ``point`` of a click, the ``text`` and the ``element``; ``all`` is 1 if the
    action is correct.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`. A row cannot be judged if
    its true action lacks a part with a weight.

    Args:
        weights: weights of the parts; a part that is left out has weight 0. None: 1 for ``all``, 0
            for the others.
        where: place of the answer after the thought: ``whole`` or ``tagged``.

    Raises:
        ConfigError: a weight names no part.
        DataError: an example has no ``true_action``, or one without a type or with a wrong box.

    Source:
        Luo et al. 2025 (GUI-R1), arXiv:2504.10458.
    """

    name = "gui_action"
    correct_by = "all"
    needs = ("true_action",)

    def __init__(
        self,
        *,
        weights: dict[str, float] | None = None,
        where: Literal["whole", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        requested = weights or {"all": 1.0}
        for name in requested:
            if name not in _PARTS:
                raise ConfigError(f"GuiAction: weights names {name!r}{nearest(name, _PARTS)}")
        self.weights = {name: requested.get(name, 0.0) for name in _PARTS}
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> dict[str, float | None]:
        """Return each part; None if the true action has no such part."""
        truth: Any = column(row, "true_action", "reward=gui_action")
        action = read_json(extract(str(row["response"]), self.where))
        parts = gui_action(action, truth)
        return {name: parts.get(name) for name in _PARTS}

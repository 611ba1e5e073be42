"""Detection reward: mean average precision of boxes with labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rlcomp.arguments import Probability
from rlcomp.errors import DataError
from rlcomp.files.json_lines import is_number
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract, read_json
from rlcomp.verify.boxes import is_box, mean_average_precision
from rlcomp.verify.columns import column

# Most boxes of an answer: the time of matching grows with the product of both numbers.
_MOST = 300


class Detections(TextReward):
    """Reward of detections: mAP over classes and IoU thresholds .5, .55, ... .95.

    The answer is a JSON list of at most 300 ``{"box": [x1, y1, x2, y2], "label": text, "score":
    number}``. Without scores the boxes are ranked by their order. Anything else scores 0. Needs the
    column ``true_boxes``, the same without scores.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``detections``.

    Args:
        correct_from: least mAP of a correct answer.
        where: place of the answer after the thought: ``whole`` or ``tagged``.

    Raises:
        DataError: an example has no ``true_boxes``, or they are no boxes.

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
        truth = _read(column(row, "true_boxes", "reward=detections"))
        if truth is None:
            raise DataError(
                f"the column 'true_boxes' is {row['true_boxes']!r:.80}: must be a list of "
                '{"box": [x1, y1, x2, y2], "label": text}'
            )
        boxes = _read(read_json(extract(str(row["response"]), self.where)))
        return 0.0 if boxes is None else mean_average_precision(*boxes, truth[0], truth[2])

    def is_correct(self, score: float) -> bool:
        """Return whether the mAP is high enough."""
        return score >= self.correct_from


def _read(entries: object) -> tuple[list[Any], list[float], list[str]] | None:
    """Return boxes, scores and labels of a list of detections; None if it is no such list."""
    if not isinstance(entries, list) or len(entries) > _MOST:
        return None
    boxes, scores, labels = [], [], []
    for place, entry in enumerate(entries):
        fields = entry if isinstance(entry, dict) else {}
        box, label, score = fields.get("box"), fields.get("label"), fields.get("score", -place)
        if not is_box(box) or not isinstance(label, str) or not is_number(score):
            return None
        boxes.append(box)
        scores.append(float(score))
        labels.append(label)
    return boxes, scores, labels

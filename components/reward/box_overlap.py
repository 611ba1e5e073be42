"""Box rewards: IoU, GIoU, Dice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import Probability
from rlcomp.errors import DataError
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract, read_json
from rlcomp.verify.boxes import dice, giou, iou, is_box
from rlcomp.verify.columns import column

_METRICS = {"iou": iou, "giou": giou, "dice": dice}


class BoxOverlap(TextReward):
    """Reward of a box: overlap of the response's box with the true one.

    The answer is JSON, ``[x1, y1, x2, y2]``. Anything else scores the minimum, 0 (GIoU: -1). Needs
    the column ``true_box``.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``box_overlap``.
    A box is correct if its metric is at least ``correct_from``.

    Args:
        metric: ``iou``, ``giou`` (differs between boxes that do not touch) or ``dice``.
        correct_from: least metric of a correct box.
        where: place of the answer after the thought: ``whole`` or ``tagged``.

    Raises:
        DataError: an example has no ``true_box``, or it is no box.

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

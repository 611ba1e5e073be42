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
    """Overlap of the box that the response gives with the true one.

    The answer is JSON, ``[x1, y1, x2, y2]``; what is no box scores the least, 0 (GIoU: -1). Needs
    the column ``true_box``.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``box_overlap``.
    Correct is a box whose metric is at least ``correct_from``.

    Args:
        metric: ``iou``, ``giou`` (differs between boxes that do not touch) or ``dice``.
        correct_from: the metric from which on a box counts as correct.
        where: the answer is the ``whole`` response behind the thought, or ``tagged``.

    Raises:
        DataError: an example has no ``true_box``, or it is none.

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
        """The metric of both boxes."""
        truth = column(row, "true_box", "reward=box_overlap")
        if not is_box(truth):
            raise DataError(f"the column 'true_box' is {truth!r:.80}: must be [x1, y1, x2, y2]")
        given = read_json(extract(str(row["response"]), self.where))
        if not is_box(given):
            return -1.0 if self.metric == "giou" else 0.0
        return _METRICS[self.metric](given, truth)

    def is_correct(self, score: float) -> bool:
        """Whether the box is near enough."""
        return score >= self.correct_from

"""Reward of key frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rlcomp.arguments import NonNegativeFloat
from rlcomp.errors import DataError
from rlcomp.files.json_lines import is_number
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract, read_json
from rlcomp.verify.boxes import keyframe_f1
from rlcomp.verify.columns import column


class KeyFrames(TextReward):
    """Reward of key frames: F1 of the response's frames, each true one matched at most once.

    ``R = 2 M / (given + true)`` with ``M`` pairs whose distance is at most the tolerance. The
    answer is a JSON list of times or indices; anything else scores 0. Needs the column
    ``true_frames``, a list in the same unit.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``key_frames``.

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

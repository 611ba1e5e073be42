"""Key-frame reward."""

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
    """F1 of the key frames that the response gives: each true one is found once, if at all.

    ``R = 2 M / (given + true)`` with ``M`` pairs that are no further apart than the tolerance. The
    answer is a JSON list of times or indices; what is none scores 0. Needs the column
    ``true_frames``, a list in the same unit.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``key_frames``.

    Args:
        tolerance: how far a frame may be off, in the unit of the frames.
        where: the answer is the ``whole`` response behind the thought, or ``tagged``.

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
        """F1 of the frames."""
        truth = _numbers(column(row, "true_frames", "reward=key_frames"))
        if truth is None:
            raise DataError(
                f"the column 'true_frames' is {row['true_frames']!r:.80}: must be a list of numbers"
            )
        given = _numbers(read_json(extract(str(row["response"]), self.where)))
        return 0.0 if given is None else keyframe_f1(given, truth, self.tolerance)


def _numbers(value: object) -> list[float] | None:
    if not isinstance(value, list):
        return None
    return [float(n) for n in value] if all(map(is_number, value)) else None

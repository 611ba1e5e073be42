"""GUI action reward: type, click in the box, text, element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract, read_json
from rlcomp.verify.columns import column
from rlcomp.verify.gui import gui_action


class GuiAction(TextReward):
    """1 if the response's GUI action is right, else 0; or one part of it.

    The answer is a JSON object ``{"action": "click", "point": [x, y], "text": ..., "element":
    ...}``. Needs the column ``true_action``, of which each entry is compared, see
    :func:`rlcomp.verify.gui.gui_action`.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``gui_action``.
    A row whose true action lacks the part cannot be judged.

    Args:
        part: what is scored: ``all`` parts together, the ``format``, the type of the ``action``,
            the ``point`` of a click, the ``text`` or the ``element``.
        where: the answer is the ``whole`` response behind the thought, or ``tagged``.

    Raises:
        DataError: an example has no ``true_action``, or one without type or with a wrong box.

    Source:
        Luo et al. 2025 (GUI-R1), arXiv:2504.10458.
    """

    name = "gui_action"

    def __init__(
        self,
        *,
        part: Literal["all", "format", "action", "point", "text", "element"] = "all",
        where: Literal["whole", "tagged"] = "tagged",
    ) -> None:
        super().__init__()
        self.part = part
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> float | None:
        """1 if the part is right, else 0; None if the true action has no such part."""
        truth: Any = column(row, "true_action", "reward=gui_action")
        given = read_json(extract(str(row["response"]), self.where))
        return gui_action(given, truth).get(self.part)

"""GUI action reward: type, click in the box, text, element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rlcomp.errors import ConfigError, nearest
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import extract, read_json
from rlcomp.verify.columns import column
from rlcomp.verify.gui import gui_action

_PARTS = ("all", "format", "action", "point", "text", "element")


class GuiAction(TextReward):
    """Named parts of a GUI action, each 1 if it is right, else 0; ``all`` of them alone weighs 1.

    ``R = sum_k w_k R_k``. The answer is a JSON object ``{"action": "click", "point": [x, y],
    "text": ..., "element": ...}``. Needs the column ``true_action``, of which each entry is
    compared, see :func:`rlcomp.verify.gui.gui_action`: the ``format``, the type of the ``action``,
    the ``point`` of a click, the ``text``, the ``element``; ``all`` says what is correct.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`. A row whose true action
    lacks a part that weighs cannot be judged.

    Args:
        weights: of the parts; those that are not named weigh 0. None: ``all`` alone, 1.
        where: the answer is the ``whole`` response behind the thought, or ``tagged``.

    Raises:
        ConfigError: a weight is no part's.
        DataError: an example has no ``true_action``, or one without type or with a wrong box.

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
        given = weights or {"all": 1.0}
        for name in given:
            if name not in _PARTS:
                raise ConfigError(f"GuiAction: weights names {name!r}{nearest(name, _PARTS)}")
        self.weights = {name: given.get(name, 0.0) for name in _PARTS}
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> dict[str, float | None]:
        """Each part; None where the true action has no such part."""
        truth: Any = column(row, "true_action", "reward=gui_action")
        given = read_json(extract(str(row["response"]), self.where))
        found = gui_action(given, truth)
        return {name: found.get(name) for name in _PARTS}

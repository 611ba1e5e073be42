"""Reward of GUI actions: type, click in the box, text, element."""

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
    """Reward of a GUI action in named parts, each 1 if it is right, else 0.

    ``R = sum_k w_k R_k``. The answer is a JSON object ``{"action": "click", "point": [x, y],
    "text": ..., "element": ...}``. Needs the column ``true_action``, whose entries are compared
    (:func:`rlcomp.verify.gui.gui_action`). The parts are the ``format``, the type of the
    ``action``, the ``point`` of a click, the ``text`` and the ``element``; ``all`` is 1 if the
    action is correct.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`. A row cannot be judged if
    its true action lacks a part with a weight.

    Args:
        weights: weights of the parts, 0 if not named. None: 1 for ``all``, 0 for the others.
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
        chosen = weights or {"all": 1.0}
        for name in chosen:
            if name not in _PARTS:
                raise ConfigError(f"GuiAction: weights names {name!r}{nearest(name, _PARTS)}")
        self.weights = {name: chosen.get(name, 0.0) for name in _PARTS}
        self.where = where

    def score_row(self, row: Mapping[str, object]) -> dict[str, float | None]:
        """Return each part; None if the true action has no such part."""
        truth: Any = column(row, "true_action", "reward=gui_action")
        action = read_json(extract(str(row["response"]), self.where))
        parts = gui_action(action, truth)
        return {name: parts.get(name) for name in _PARTS}

"""IFEval reward: verifiable instructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import column
from rlcomp.verify.ifeval import ifeval


class IFEval(TextReward):
    """Reward 1 if the response follows all its instructions, else 0; or the share of them.

    Needs the columns ``instruction_id_list`` and ``kwargs`` of the IFEval data set. For the 25
    instructions see :mod:`rlcomp.verify.ifeval`. An unknown instruction stops the run.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; the part is ``ifeval``.

    Args:
        loose: whether an instruction also counts as followed if the response follows it without
            its first line, its last line or its asterisks.
        partial: whether the reward is the share of followed instructions.

    Raises:
        DataError: an example lacks a column, or has an unknown instruction.
        MissingExtra: an instruction asks for a language, and langdetect is not installed (extra
            ``verify``).

    Source:
        Zhou et al. 2023, arXiv:2311.07911.
    """

    name = "ifeval"
    needs = ("instruction_id_list", "kwargs")

    def __init__(self, *, loose: bool = False, partial: bool = False) -> None:
        super().__init__()
        self.loose = loose
        self.partial = partial

    def score_row(self, row: Mapping[str, object]) -> float:
        """Return whether all instructions of the row are followed, or the share."""
        names: Any = column(row, "instruction_id_list", "reward=ifeval")
        arguments: Any = column(row, "kwargs", "reward=ifeval")
        return ifeval(
            str(row["response"]), names, arguments, loose=self.loose, partial=self.partial
        )

"""Rewards by the checkers of benchmarks: IFEval and reasoning-gym."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlcomp.arguments import PositiveFloat
from rlcomp.errors import require
from rlcomp.interfaces.pooled_reward import PooledReward
from rlcomp.interfaces.reward import TextReward
from rlcomp.verify.answers import Where, column
from rlcomp.verify.ifeval import ifeval
from rlcomp.workers.executor import CallExecutor


class IFEval(TextReward):
    """Reward 1 if the response follows all its instructions, else 0; or the share of them.

    Needs the columns ``instruction_id_list`` and ``kwargs`` of the IFEval data set. For the 25
    instructions see :mod:`rlcomp.verify.ifeval`. An unknown instruction stops the run.

    Reads and writes: see :class:`rlcomp.interfaces.reward.TextReward`; name in ``rewards``:
    ``ifeval``.

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
        """Return 1 if all instructions are followed, else 0; the share if ``partial``."""
        names: Any = column(row, "instruction_id_list", "reward=ifeval")
        arguments: Any = column(row, "kwargs", "reward=ifeval")
        return ifeval(
            str(row["response"]), names, arguments, loose=self.loose, partial=self.partial
        )


class ReasoningGymReward(PooledReward):
    """Reward 1 if the puzzle's checker accepts the answer, else 0.

    The checker runs in the reward pool, after the checks of
    :func:`rlcomp.verify.reasoning_gym.reasoning_gym`. Needs the column ``reasoning_gym``, written
    by ``task=reasoning_gym``.

    Reads, writes and records: see :class:`rlcomp.interfaces.pooled_reward.PooledReward`; the part
    is ``reasoning_gym``.

    Args:
        where: place of the answer after the thought: ``whole``, ``boxed``, or ``tagged`` as
            ``<answer>...</answer>``.
        partial: whether the reward is the checker's score in [0, 1]; otherwise a score below 1
            becomes 0.
        timeout: time limit of a check, in seconds.
        calls: the reward pool that runs the checks; by default they run in the process, without a
            limit.

    Raises:
        DataError: (when called) an example has no such column.
        MissingExtra: reasoning-gym is not installed (extra ``gym``).

    Source:
        Stojanovski et al. 2025 (Reasoning Gym), arXiv:2505.24760.
    """

    name = "reasoning_gym"
    needs = ("reasoning_gym",)
    function = "rlcomp.verify.reasoning_gym.reasoning_gym"

    def __init__(
        self,
        *,
        where: Where = "whole",
        partial: bool = False,
        timeout: PositiveFloat = 10.0,
        calls: CallExecutor | None = None,
    ) -> None:
        super().__init__(timeout=timeout, calls=calls)
        require("reasoning_gym", "gym")
        self.where = where
        self.partial = partial

    def arguments(self, row: Mapping[str, object]) -> Mapping[str, object]:
        """Return the response and the puzzle that it answers."""
        puzzle = column(row, "reasoning_gym", "reward=reasoning_gym")
        return {
            "response": row["response"],
            "puzzle": puzzle,
            "where": self.where,
            "partial": self.partial,
        }

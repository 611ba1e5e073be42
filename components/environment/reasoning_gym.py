"""Puzzles of reasoning-gym with several attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcomp.arguments import Checked, NonEmptyText, PositiveInt
from rlcomp.episodes.attempts import Attempts
from rlcomp.errors import ConfigError
from rlcomp.interfaces.adapter import world_seed
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.verify.answers import Where
from rlcomp.verify.reasoning_gym import puzzles, question, reasoning_gym


class ReasoningGymEnvironment(metaclass=Checked):
    """Puzzle of reasoning-gym: the policy answers until it is right or has no attempt left.

    With ``task=reasoning_gym`` (column ``reasoning_gym``) the prompt is the question. Otherwise
    ``reset`` makes a question of the data set ``name`` from the column ``seed`` or the episode's
    own seed. The reward is the increase of the best score by
    :func:`rlcomp.verify.reasoning_gym.reasoning_gym`.

    Args:
        name: name of the data set, such as ``leg_counting``; null: the example names the puzzle.
        settings: reasoning-gym's settings of its difficulty.
        attempts: number of attempts.
        where: place of the answer after the thought: ``whole``, ``boxed`` or ``tagged``.
        partial: whether scores between 0 and 1 are paid too.
        remark: the observation after a wrong answer.
        stops: texts that end a turn of the policy; EOS always does.

    Raises:
        ConfigError: there is no such data set, it has no such settings, or its checker accepts
            wrong answers.
        MissingExtra: reasoning-gym is not installed (extra ``gym``).

    Source:
        Stojanovski et al. 2025 (Reasoning Gym), arXiv:2505.24760.
    """

    def __init__(
        self,
        *,
        name: NonEmptyText | None = None,
        settings: Mapping[str, Any] | None = None,
        attempts: PositiveInt = 1,
        where: Where = "whole",
        partial: bool = False,
        remark: NonEmptyText = "\nThat is not right. Try again.\n",
        stops: Sequence[NonEmptyText] = (),
    ) -> None:
        self.name = name
        self.settings = dict(settings or {})
        if name is not None:
            puzzles(name, self.settings, 0, 1)
        self.attempts = Attempts(attempts, remark)
        self.where: Where = where
        self.partial = partial
        self.stops = tuple(stops)
        self.puzzle: Any = None

    def reset(self, example: Example, seed: int) -> Turn:
        """Ask the question unless the prompt holds it.

        Raises:
            ConfigError: neither the example nor ``name`` names a data set.
        """
        self.puzzle = example.columns.get("reasoning_gym")
        if self.puzzle is not None:
            return Turn()
        if self.name is None:
            raise ConfigError("name is null: set environment.name=..., or task=reasoning_gym")
        world = {"seed": world_seed(example, seed), "size": 1, "index": 0}
        self.puzzle = {"name": self.name, "settings": self.settings, **world}
        return Turn(observation=question(self.puzzle), closing="\n")

    def step(self, action: str) -> Turn:
        """Score an answer."""
        for stop in self.stops if self.where == "whole" else ():
            action = action.removesuffix(stop)
        score = reasoning_gym(action, self.puzzle, where=self.where, partial=self.partial)
        return self.attempts.answer(score)

    def facts(self) -> Mapping[str, float]:
        """Return the number of ``attempts``, and whether one was right (``solved``)."""
        return self.attempts.facts()

    def close(self) -> None:
        """No-op."""

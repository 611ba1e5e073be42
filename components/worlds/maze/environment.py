"""Maze of text rooms: a move is a letter, the observation is the next room."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from rlcomp.arguments import Checked, Probability
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class MazeEnvironment(metaclass=Checked):
    """Environment that answers ``n``, ``e``, ``s`` or ``w`` with the next room; the exit pays.

    The example's prompt ends with the start room, and its answer is the exit, which ends the
    episode. Its column ``ways`` holds for each move the next room of every room, in order. A move
    against a wall, or other text, stays in the room.

    The state of a turn (``anchor``) is the room.

    Args:
        discount: factor of the pay, 1, for each move after the first.

    Examples:
        >>> maze = MazeEnvironment()
        >>> ways = {"n": "AB", "e": "BB", "s": "AB", "w": "AA"}
        >>> _ = maze.reset(Example("A", "B", "", columns={"ways": ways}), seed=0)
        >>> maze.step("s").observation, maze.step("e").done, dict(maze.facts())
        ('A', True, {'moves': 2.0, 'success': 1.0})
    """

    stops = ("n", "e", "s", "w")

    def __init__(self, *, discount: Probability = 1.0) -> None:
        self.discount = discount
        self.ways: Mapping[str, str] = {}
        self.room = self.exit = ""
        self.moves = 0

    def reset(self, example: Example, seed: int) -> Turn:
        """Start in the first room, which the prompt names."""
        del seed
        ways = example.columns["ways"]
        assert isinstance(ways, Mapping)
        self.ways = ways
        self.room, self.exit = example.prompt[-1], example.answer
        return Turn(anchor=self.room)

    def step(self, action: str) -> Turn:
        """Make a move and return the room."""
        self.moves += 1
        ways = self.ways.get(action[-1:])
        if ways is not None:
            self.room = ways[ord(self.room) - ord("A")]
        if self.room == self.exit:
            return Turn(reward=self.discount ** (self.moves - 1), done=True)
        return Turn(observation=self.room, anchor=self.room)

    def facts(self) -> Mapping[str, float]:
        """Return ``moves`` so far and ``success``: whether the room is the exit."""
        return {"moves": float(self.moves), "success": float(self.room == self.exit)}

    def fork(self) -> MazeEnvironment:
        """Return a copy with the same state."""
        return copy.copy(self)

    def close(self) -> None:
        """No-op: it holds nothing."""

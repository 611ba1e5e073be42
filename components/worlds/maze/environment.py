"""Maze of text rooms: a move is a letter, and the room it leads to is told."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from rlcomp.arguments import Checked, Probability
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class MazeEnvironment(metaclass=Checked):
    """Answers ``n``, ``e``, ``s`` or ``w`` with the room it leads to; in the exit it pays and ends.

    The example's prompt ends with the room to start in, its answer is the exit, and its column
    ``ways`` says of each move where it leads from every room, in order. Against a wall one stays.
    Whatever is no move stays, too.

    The state that a turn is decided in (``anchor``) is the room.

    Args:
        discount: what each move behind the first leaves of the pay, which is 1.

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
        """Stand in the first room; the prompt has told which."""
        del seed
        ways = example.columns["ways"]
        assert isinstance(ways, Mapping)
        self.ways = ways
        self.room, self.exit = example.prompt[-1], example.answer
        return Turn(anchor=self.room)

    def step(self, action: str) -> Turn:
        """Move, and be told where one is."""
        self.moves += 1
        ways = self.ways.get(action[-1:])
        if ways is not None:
            self.room = ways[ord(self.room) - ord("A")]
        if self.room == self.exit:
            return Turn(reward=self.discount ** (self.moves - 1), done=True)
        return Turn(observation=self.room, anchor=self.room)

    def facts(self) -> Mapping[str, float]:
        """``moves`` so far, and whether one is in the exit: ``success``."""
        return {"moves": float(self.moves), "success": float(self.room == self.exit)}

    def fork(self) -> MazeEnvironment:
        """Another one in the same room, after as many moves."""
        return copy.copy(self)

    def close(self) -> None:
        """Nothing is held."""

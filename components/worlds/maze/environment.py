"""Environment of a maze of rooms, with letters as moves and observations."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from rlcomp.arguments import Checked, Probability
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


class MazeEnvironment(metaclass=Checked):
    """Environment whose moves are ``n``, ``e``, ``s`` and ``w`` and whose observation is the room.

    The example's prompt ends with the start room. Its answer is the exit, where the episode ends
    with the reward ``discount ** (moves - 1)``. Its column ``ways`` holds for each move the next
    room of every room, in order. A move against a wall stays in the room, and so does other text.

    The state of a turn (``anchor``) is the room.

    Args:
        discount: factor of the reward for each move after the first.

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
        """Start in the last room of the prompt; ``seed`` is ignored."""
        del seed
        ways = example.columns["ways"]
        assert isinstance(ways, Mapping)
        self.ways = ways
        self.room, self.exit = example.prompt[-1], example.answer
        return Turn(anchor=self.room)

    def step(self, action: str) -> Turn:
        """Make a move and return the room, or the reward at the exit."""
        self.moves += 1
        next_rooms = self.ways.get(action[-1:])
        if next_rooms is not None:
            self.room = next_rooms[ord(self.room) - ord("A")]
        if self.room == self.exit:
            return Turn(reward=self.discount ** (self.moves - 1), done=True)
        return Turn(observation=self.room, anchor=self.room)

    def facts(self) -> Mapping[str, float]:
        """Return the number of ``moves``, and ``success``: 1 in the exit, else 0."""
        return {"moves": float(self.moves), "success": float(self.room == self.exit)}

    def fork(self) -> MazeEnvironment:
        """Return a copy with the same state."""
        return copy.copy(self)

    def close(self) -> None:
        """No-op."""

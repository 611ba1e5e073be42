"""Maze: a toy task of many turns, paid at its exit only."""

from __future__ import annotations

import random
import sys
from string import ascii_uppercase

from rlcomp.arguments import Checked, Fraction, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

# Rows down and columns right that a move leads.
MOVES = {"n": (-1, 0), "e": (0, 1), "s": (1, 0), "w": (0, -1)}


class Maze(metaclass=Checked):
    """``"F"`` names the room to start in: find the exit, the last room of a square of them.

    The rooms ``A``, ``B``, ... stand in rows. All examples have the same maze, drawn from
    ``layout``: doors that join all rooms, and as many more as there are ``loops``. The prompt does
    not tell them; who moves is told the room
    (:class:`components.worlds.maze.environment.MazeEnvironment`). Every room but the exit is a
    start in turn.

    A demonstration walks at random, until the exit or for ``walk`` moves. What is held out are
    walks: every room is a start in training and of evaluators.

    Args:
        size: rooms a side, from 2 to 5.
        loops: doors that could be closed without parting any rooms; a square has
            ``(size - 1)^2`` at most.
        layout: which maze.
        walk: the most moves of a demonstration.
        examples: how many.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: there are no letters for as many rooms, or no walls for as many loops.

    Examples:
        >>> example = Maze(size=2, loops=1, walk=3).example(1)
        >>> example.prompt, example.answer, example.columns["ways"]["s"], example.turns
        ('B', 'D', 'CDCD', ('e', 'B', 'e', 'B', 'n'))
    """

    def __init__(
        self,
        *,
        size: PositiveInt = 4,
        loops: NonNegativeInt = 5,
        layout: NonNegativeInt = 2,
        walk: PositiveInt = 12,
        examples: PositiveInt = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if not 2 <= size <= 5:
            raise ConfigError(f"Maze: size is {size}: must be from 2 to 5")
        if loops > (size - 1) ** 2:
            raise ConfigError(f"Maze: loops is {loops}: must be at most {(size - 1) ** 2}")
        if examples > sys.maxsize:
            raise ConfigError(f"Maze: examples is {examples}: must be at most {sys.maxsize}")
        self.size = size
        self.loops = loops
        self.walk = walk
        self.examples = examples
        self.held_out = held_out
        self.rooms = ascii_uppercase[: size * size]
        self.ways = self._ways(random.Random(named_seed(layout, "maze")))

    def _ways(self, draw: random.Random) -> dict[str, str]:
        """Of each move where it leads from every room: Kruskal's tree, and doors in more walls."""
        walls = [
            (room, self._beside(room, move))
            for room in range(len(self.rooms))
            for move in "es"
            if self._beside(room, move) != room
        ]
        draw.shuffle(walls)
        part = list(range(len(self.rooms)))
        doors, spare = list[tuple[int, int]](), list[tuple[int, int]]()
        for room, other in walls:
            (spare if part[room] == part[other] else doors).append((room, other))
            old = part[other]
            part = [part[room] if each == old else each for each in part]
        open_ = {frozenset(door) for door in doors + spare[: self.loops]}
        return {
            move: "".join(self._led(n, move, open_) for n in range(len(part))) for move in MOVES
        }

    def _beside(self, room: int, move: str) -> int:
        """The room on this side; the same one at the border."""
        row, column = divmod(room, self.size)
        down, right = MOVES[move]
        if not (0 <= row + down < self.size and 0 <= column + right < self.size):
            return room
        return room + down * self.size + right

    def _led(self, room: int, move: str, doors: set[frozenset[int]]) -> str:
        beside = self._beside(room, move)
        return self.rooms[beside if frozenset((room, beside)) in doors else room]

    def __len__(self) -> int:
        """How many examples there are, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """A room to start in, which take turns, and a walk from there."""
        draw = random.Random(named_seed(index, "walk"))
        starts, last = self.rooms[:-1], self.rooms[-1]
        prompt = starts[index % len(starts)]
        turns, room = list[str](), prompt
        for _ in range(self.walk):
            move = draw.choice("nesw")
            room = self.ways[move][ord(room) - ord("A")]
            turns += [move, room]
            if room == last:
                break
        turns.pop()  # behind the last move nothing is told
        return Example(
            prompt,
            last,
            "".join(turns),
            source=f"{prompt}{index}",
            columns={"ways": self.ways},
            turns=tuple(turns),
        )

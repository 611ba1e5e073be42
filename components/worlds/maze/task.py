"""Maze: a toy task of many turns with a reward only at the exit."""

from __future__ import annotations

import random
from string import ascii_uppercase

from rlcomp.arguments import Checked, ExampleCount, Fraction, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

# Change of row and column of each move.
MOVES = {"n": (-1, 0), "e": (0, 1), "s": (1, 0), "w": (0, -1)}


class Maze(metaclass=Checked):
    """Task of mazes: the prompt ``"F"`` is the start room; the exit is the last room of a square.

    The rooms ``A``, ``B``, ... are in rows. All examples have the same random maze, from
    ``layout``: doors that connect all rooms, and ``loops`` more doors. The prompt does not hold the
    doors; a move returns the room
    (:class:`components.worlds.maze.environment.MazeEnvironment`). All rooms but the exit alternate
    as start.

    A demonstration walks at random until the exit or for ``walk`` moves. Walks are held out, not
    rooms: every room is a start in training and evaluation.

    Args:
        size: rooms per side, from 2 to 5.
        loops: doors that could be closed with all rooms still connected; at most
            ``(size - 1)^2``.
        layout: seed of the maze.
        walk: most moves of a demonstration.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: there are too few letters for the rooms, or too few walls for the loops.

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
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if not 2 <= size <= 5:
            raise ConfigError(f"Maze: size is {size}: must be from 2 to 5")
        if loops > (size - 1) ** 2:
            raise ConfigError(f"Maze: loops is {loops}: must be at most {(size - 1) ** 2}")
        self.size = size
        self.loops = loops
        self.walk = walk
        self.examples = examples
        self.held_out = held_out
        self.rooms = ascii_uppercase[: size * size]
        self.ways = self._ways(random.Random(named_seed(layout, "maze")))

    def _ways(self, draw: random.Random) -> dict[str, str]:
        """Return each move's next rooms: Kruskal's tree, and doors in more walls."""
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
        """Return the room on this side, or the same room at the border."""
        row, column = divmod(room, self.size)
        down, right = MOVES[move]
        if not (0 <= row + down < self.size and 0 <= column + right < self.size):
            return room
        return room + down * self.size + right

    def _led(self, room: int, move: str, doors: set[frozenset[int]]) -> str:
        beside = self._beside(room, move)
        return self.rooms[beside if frozenset((room, beside)) in doors else room]

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return a start room (they alternate) and a walk from there."""
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
        turns.pop()  # no observation after the last move
        return Example(
            prompt,
            last,
            "".join(turns),
            source=f"{prompt}{index}",
            columns={"ways": self.ways},
            turns=tuple(turns),
        )

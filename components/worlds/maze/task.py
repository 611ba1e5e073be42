"""Task of mazes: many turns with a reward only at the exit."""

from __future__ import annotations

import random
from string import ascii_uppercase
from typing import Annotated

from annotated_types import Interval

from rlcomp.arguments import Checked, ExampleCount, Fraction, NonNegativeInt, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

# Change of row and column of each move.
MOVES = {"n": (-1, 0), "e": (0, 1), "s": (1, 0), "w": (0, -1)}


class Maze(metaclass=Checked):
    """Task of mazes: the prompt ``"F"`` is the start room; the exit is the last room of a square.

    The rooms ``A``, ``B``, ... are numbered row by row. All examples have the same random maze: a
    tree of doors that connects all rooms, and ``loops`` more doors. The prompt does not list the
    doors; the observation of a move is the next room
    (:class:`components.worlds.maze.environment.MazeEnvironment`). The start alternates between all
    rooms except the exit.

    A demonstration is a random walk that ends at the exit or after ``walk`` moves. The split
    holds out walks, not rooms: every room is a start in training and in evaluation.

    Args:
        size: rooms per side, from 2 to 5.
        loops: number of doors in addition to the tree, at most ``(size - 1)^2``.
        layout: seed of the maze.
        walk: largest number of moves of a demonstration.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: ``loops`` is above ``(size - 1)^2``, the number of walls without a door.

    Examples:
        >>> example = Maze(size=2, loops=1, walk=3).example(1)
        >>> example.prompt, example.answer, example.columns["ways"]["s"], example.turns
        ('B', 'D', 'CDCD', ('e', 'B', 'e', 'B', 'n'))
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Interval(ge=2, le=5)] = 4,
        loops: NonNegativeInt = 5,
        layout: NonNegativeInt = 2,
        walk: PositiveInt = 12,
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if loops > (size - 1) ** 2:
            raise ConfigError(f"Maze: loops is {loops}: must be at most {(size - 1) ** 2}")
        self.size = size
        self.loops = loops
        self.walk = walk
        self.examples = examples
        self.held_out = held_out
        self.rooms = ascii_uppercase[: size * size]
        self.ways = self._draw_ways(random.Random(named_seed(layout, "maze")))

    def _draw_ways(self, draw: random.Random) -> dict[str, str]:
        """Return each move's next rooms in a maze of Kruskal's spanning tree and more doors."""
        walls = [
            (room, self._neighbour(room, move))
            for room in range(len(self.rooms))
            for move in "es"
            if self._neighbour(room, move) != room
        ]
        draw.shuffle(walls)
        component = list(range(len(self.rooms)))
        tree, closed_walls = list[tuple[int, int]](), list[tuple[int, int]]()
        for room, neighbour in walls:
            is_connected = component[room] == component[neighbour]
            (closed_walls if is_connected else tree).append((room, neighbour))
            old = component[neighbour]
            component = [component[room] if number == old else number for number in component]
        doors = {frozenset(door) for door in tree + closed_walls[: self.loops]}
        return {
            move: "".join(self._next_room(room, move, doors) for room in range(len(component)))
            for move in MOVES
        }

    def _neighbour(self, room: int, move: str) -> int:
        """Return the number of the room in this direction, or the same room at the border."""
        row, column = divmod(room, self.size)
        row_change, column_change = MOVES[move]
        if not (0 <= row + row_change < self.size and 0 <= column + column_change < self.size):
            return room
        return room + row_change * self.size + column_change

    def _next_room(self, room: int, move: str, doors: set[frozenset[int]]) -> str:
        """Return the letter of the room after a move."""
        neighbour = self._neighbour(room, move)
        return self.rooms[neighbour if frozenset((room, neighbour)) in doors else room]

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return the start room of an index and a walk from there."""
        draw = random.Random(named_seed(index, "walk"))
        starts, exit_room = self.rooms[:-1], self.rooms[-1]
        prompt = starts[index % len(starts)]
        turns, room = list[str](), prompt
        for _ in range(self.walk):
            move = draw.choice("nesw")
            room = self.ways[move][ord(room) - ord("A")]
            turns += [move, room]
            if room == exit_room:
                break
        turns.pop()  # The last turn is a move without an observation.
        return Example(
            prompt,
            exit_room,
            "".join(turns),
            source=f"{prompt}{index}",
            columns={"ways": self.ways},
            turns=tuple(turns),
        )

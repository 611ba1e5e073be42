import pytest

from components.worlds.maze.environment import MazeEnvironment
from components.worlds.maze.task import Maze
from rlcomp.errors import ConfigError

BACK = {"n": "s", "s": "n", "e": "w", "w": "e"}


def distances(task):
    """Moves from every room to the exit, by breadth first search from there."""
    found, new = {task.rooms[-1]: 0}, [task.rooms[-1]]
    while new:
        room = new.pop(0)
        for move in "nesw":
            other = task.ways[move][task.rooms.index(room)]
            if other not in found:
                found[other] = found[room] + 1
                new.append(other)
    return found


def doors(task):
    """Pairs of rooms that a move joins; whoever goes back is where he was."""
    found = set()
    for move, led in task.ways.items():
        for room, other in zip(task.rooms, led, strict=True):
            if other != room:
                assert task.ways[BACK[move]][task.rooms.index(other)] == room
                found.add(frozenset((room, other)))
    return found


@pytest.mark.parametrize(("size", "loops"), [(4, 0), (4, 5), (4, 9), (2, 1), (5, 16)])
def test_every_room_is_joined_and_loops_are_doors_beyond_a_tree(size, loops):
    for layout in range(5):
        task = Maze(size=size, loops=loops, layout=layout)
        assert len(doors(task)) == size * size - 1 + loops
        assert len(distances(task)) == size * size


def test_without_walls_a_way_is_as_long_as_rows_and_columns():
    assert distances(Maze(size=3, loops=4)) == {
        "A": 4, "B": 3, "C": 2, "D": 3, "E": 2, "F": 1, "G": 2, "H": 1, "I": 0,
    }  # fmt: skip


def test_the_maze_of_the_recipe():
    found = distances(Maze())
    # As its yaml says; 12 moves are enough from everywhere.
    assert sum(found.values()) / 15 == pytest.approx(3.7, abs=0.05)
    assert max(found.values()) == 7
    assert (
        Maze().example(3).columns == Maze().example(8).columns != Maze(layout=0).example(3).columns
    )


def test_a_demonstration_is_a_walk_that_ends_in_the_exit_or_after_its_moves():
    task = Maze(walk=9)
    ended = 0
    for index in range(300):
        example, rooms = task.example(index), MazeEnvironment()
        rooms.reset(example, seed=0)
        told = [rooms.step(move) for move in example.turns[::2]]
        # What is told stands between the moves, and nothing behind the last one.
        assert [turn.observation for turn in told[:-1]] == [*example.turns[1::2]]
        assert len(example.turns) == 2 * len(told) - 1
        assert told[-1].done or len(told) == 9
        assert "".join(example.turns) == example.demonstration
        ended += told[-1].done
    assert 0 < ended < 300


def test_every_room_but_the_exit_is_a_start():
    task = Maze(size=2, loops=0, examples=8)
    assert [task.example(n).prompt for n in range(len(task))] == [*"ABCABCAB"]
    assert {task.example(n).answer for n in range(len(task))} == {"D"}
    # Of training and of evaluators.
    whole = [Maze().example(n) for n in range(1500)]
    assert len({each.prompt for each in whole if each.is_held_out(0.1)}) == 15


@pytest.mark.parametrize(
    ("name", "value"), [("size", 1), ("size", 6), ("loops", 10), ("examples", 2**63), ("walk", 0)]
)
def test_what_it_cannot_be_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        Maze(**{name: value})

import pytest

from components.worlds.lookup.environment import LookupTool
from components.worlds.maze.environment import MazeEnvironment
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Environment, Forkable, Turn
from rlcomp.interfaces.task import Example

# A - B
#     |
# C   D     with a wall between A and C, and between C and D.
WAYS = {"n": "ABCB", "e": "BBCD", "s": "ADCD", "w": "AACD"}


def begun(**arguments):
    maze = MazeEnvironment(**arguments)
    start = maze.reset(Example("A", "D", "", columns={"ways": WAYS}), seed=0)
    assert start == Turn(anchor="A")
    return maze


def test_a_move_leads_to_a_room_or_against_a_wall():
    maze = begun()
    assert isinstance(maze, Environment)
    assert maze.step("s") == Turn(observation="A", anchor="A")
    assert maze.step("e") == Turn(observation="B", anchor="B")
    assert maze.facts() == {"moves": 2.0, "success": 0.0}
    assert maze.step("s") == Turn(reward=1.0, done=True)
    assert maze.facts() == {"moves": 3.0, "success": 1.0}
    maze.close()


@pytest.mark.parametrize("action", ["", "A", "x"])
def test_a_text_that_is_no_move_stays(action):
    maze = begun()
    assert maze.step(action) == Turn(observation="A", anchor="A")
    assert maze.facts()["moves"] == 1.0


def test_the_pay_is_discounted_for_each_move_behind_the_first():
    maze = begun(discount=0.5)
    assert [maze.step(move).reward for move in "ees"] == [0.0, 0.0, 0.25]
    with pytest.raises(ConfigError, match="discount"):
        MazeEnvironment(discount=2.0)


def test_a_fork_moves_independently():
    maze = begun()
    maze.step("e")
    other = maze.fork()
    assert isinstance(maze, Forkable)
    assert other.step("w").anchor == "A"
    assert maze.step("s").done
    assert (maze.facts()["moves"], other.facts()["moves"]) == (2.0, 2.0)


def test_a_fork_of_a_tool_is_independent():
    tool = LookupTool()
    tool.reset(Example("a2=", "c", "", columns={"map": "bca"}), seed=0)
    tool.step("<a>")
    other = tool.fork()
    assert other.step("<b>") == Turn(observation="c|", anchor="a2= ab bc")
    assert (tool.facts()["questions"], other.facts()["questions"]) == (1.0, 2.0)

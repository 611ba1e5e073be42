"""Questions that an answer needs are paid, by hand."""

import pytest

from components.worlds.lookup.environment import PaidLookupTool
from rlcomp.interfaces.environment import Environment, Turn
from rlcomp.interfaces.task import Example

# a -> b -> c -> a: to get from a to a in three steps a, b and c are needed.
ROUND = Example("a3=", "a", "", columns={"map": "bca", "hops": 3})


def test_they_are_paid_once_and_in_their_order():
    tool = PaidLookupTool(useful=0.6)
    assert isinstance(tool, Environment)
    tool.reset(ROUND, seed=0)
    asked = ["<b>", "<a>", "<a>", "<c>", "<z>", "<c><b>", "<c>", "<a>"]
    turns = [tool.step(question) for question in asked]

    assert [turn.reward for turn in turns] == pytest.approx([0, 0.2, 0, 0, 0, 0.2, 0.2, 0])
    assert turns[1].observation == "b|"
    assert turns[1].anchor == "a3= ab bc"
    assert tool.step("a") == Turn(done=True)
    assert tool.facts() == {"questions": 8.0}


def test_a_new_episode_is_paid_anew():
    tool = PaidLookupTool()
    for _ in range(2):
        tool.reset(ROUND, seed=0)
        assert tool.step("<a>").reward == pytest.approx(1 / 3)


def test_a_fork_gets_rewards_for_the_rest_of_the_path():
    tool = PaidLookupTool(useful=1.0)
    tool.reset(Example("a2=", "c", "", columns={"map": "bca", "hops": 2}), seed=0)
    assert tool.step("<a>").reward == 0.5
    other = tool.fork()

    assert [each.step("<b>").reward for each in (tool, other)] == [0.5, 0.5]

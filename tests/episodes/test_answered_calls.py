import pytest

from rlcomp.episodes.tool_calls import ToolCall
from rlcomp.episodes.tool_execution import ToolCallExecutor
from rlcomp.interfaces.environment import Turn


def answer(call):
    return f"{call.name}!", call.name == "bad"


def test_the_calls_of_a_turn_are_answered_in_order_and_counted():
    calls = ToolCallExecutor(answer)

    told = "<tool_response>add!</tool_response><tool_response>bad!"
    two = [ToolCall("add", {}), ToolCall("bad", {})]
    assert calls.turn(two) == Turn(observation=told, closing="</tool_response>")
    assert calls.facts() == {"calls": 2.0, "failed": 1.0}


def test_what_cannot_be_read_is_told_and_is_no_call():
    calls = ToolCallExecutor(answer)

    assert calls.turn("is not JSON").observation == "<tool_response>is not JSON"
    assert calls.facts() == {"calls": 0.0, "failed": 1.0}


def test_a_call_that_breaks_the_environment_is_not_counted():
    def broken(call):
        raise KeyError(call.name)

    calls = ToolCallExecutor(broken)
    with pytest.raises(KeyError):
        calls.turn([ToolCall("add", {})])
    assert calls.facts() == {"calls": 0.0, "failed": 0.0}

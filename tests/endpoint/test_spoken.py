"""Tool calls that a client hands back: as the policy sampled them, or as they were changed."""

import json

import pytest

from rlcomp.endpoint.reply import RawToolCallCache, ReplyChoice
from rlcomp.engine.session import TurnSample

TABLE = [b"", b"let me see ", b'<tool_call>{"name":"f",  "arguments":{"x":1}}</tool_call>', b"\xc3"]
TEXT = 'let me see <tool_call>{"name":"f",  "arguments":{"x":1}}</tool_call>'


def call(name="f", arguments='{"x": 1}', id="call_0"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message(*calls, content="let me see", **more):
    return {"role": "assistant", "content": content, "tool_calls": [*calls], **more}


@pytest.fixture
def spoken():
    spoken = RawToolCallCache()
    answer = ReplyChoice("let me see", [call(), call("g", id="call_1")], "tool_calls", [], [])
    spoken.store(answer, TurnSample([1, 2], [0.0, 0.0], False), TABLE)
    return spoken


@pytest.mark.parametrize("arguments", ['{"x": 1}', '{"x":1}', {"x": 1}])
def test_calls_that_come_back_are_the_text_that_was_sampled(spoken, arguments):
    user = {"role": "user", "content": "a"}
    back = message(call(arguments=arguments), call("g", arguments, "call_1"), name="policy")

    assert spoken.as_sampled([user, back]) == [user, {"role": "assistant", "content": TEXT}]


@pytest.mark.parametrize(
    "changed",
    [
        message(call(), call("g"), content="let us see"),
        message(call(arguments='{"x": 2}'), call("g")),
        message(call(), call("h")),
        message(call()),
        message(call(id="call_7"), call("g")),
        {"role": "assistant", "content": "let me see", "tool_calls": []},
        {"role": "assistant", "content": "let me see"},
    ],
)
def test_what_a_client_has_changed_stays_as_it_is(spoken, changed):
    assert spoken.as_sampled([changed]) == [changed]


def test_an_answer_of_calls_alone_has_no_content():
    spoken = RawToolCallCache()
    spoken.store(
        ReplyChoice(None, [call()], "tool_calls", [], []),
        TurnSample([2, 3], [0.0] * 2, False),
        TABLE,
    )

    (found,) = spoken.as_sampled([message(call(), content="")])

    assert found == {"role": "assistant", "content": TEXT.removeprefix("let me see ") + "�"}


def test_answers_without_calls_are_not_noted():
    spoken = RawToolCallCache()
    spoken.store(ReplyChoice("a", [], "stop", [], []), TurnSample([1], [0.0], False), TABLE)

    assert spoken.as_sampled([message(call())]) == [message(call())]
    assert json.dumps(spoken.as_sampled([])) == "[]"

"""Replies of the endpoint by hand."""

import json

import pytest

from rlcomp.endpoint.reply import (
    RawToolCallCache,
    ReplyChoice,
    choice_of_turn,
    reply_body,
    reply_events,
)
from rlcomp.endpoint.request import CompletionRequest
from rlcomp.engine.session import TurnSample

TABLE = [
    b"",
    b"a",
    b"b",
    b"|",
    b"\xc3",
    b"\xa9",
    b'<tool_call>{"name": "f", "arguments": {"x": 1}}',
]
TABLE += [b"</tool_call>", b"<tool_call>{"]
CHAT = CompletionRequest(True)
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def choice_of(ids, request=CHAT, *, truncated=False):
    return choice_of_turn(TurnSample(ids, [-0.5] * len(ids), truncated), request, TABLE, "name")


def test_an_answer_is_the_text_of_its_tokens():
    actual = choice_of([1, 2, 4, 5, 0])

    assert actual == ReplyChoice("abé", [], "stop", [b"a", b"b", b"\xc3", b"\xa9", b""], [-0.5] * 5)
    assert choice_of([1, 4]).content == "a�"


@pytest.mark.parametrize(
    ("stops", "content"),
    [((), "ab|b"), (("|",), "ab"), (("b", "|"), "a"), (("|", "b"), "a"), (("c",), "ab|b")],
)
def test_the_content_ends_before_the_first_stop_text(stops, content):
    assert choice_of([1, 2, 3, 2], CompletionRequest(True, stops=stops)).content == content


def test_finish_reasons():
    with_tools = CompletionRequest(True, tools=TOOLS)

    assert choice_of([1], truncated=True).finish == "length"
    assert choice_of([6, 7], with_tools).finish == "tool_calls"
    assert choice_of([6, 7], with_tools, truncated=True).finish == "length"
    assert choice_of([6, 7]).finish == "stop"


def test_tool_calls_are_parsed_if_the_request_has_tools():
    with_tools = CompletionRequest(True, tools=TOOLS)
    call = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}

    alone = choice_of([6, 7], with_tools)
    among = choice_of([1, 6, 7, 6, 7, 2], with_tools)

    assert alone.calls == [{"id": "call_name_0", **call}]
    assert alone.content is None
    assert [each["id"] for each in among.calls] == ["call_name_0", "call_name_1"]
    assert among.content == "ab"
    # Without tools, or where a call is wrong, it is text.
    assert choice_of([1, 6, 7]).calls == choice_of([1, 8, 7], with_tools).calls == []
    assert choice_of([1, 8, 7], with_tools).content == "a<tool_call>{</tool_call>"


ANSWERS = [
    ReplyChoice("aé", [], "stop", [b"a", b"\xc3\xa9", b""], [-0.25, -0.5, -1.0]),
    ReplyChoice("b", [], "length", [b"b"], [-2.0]),
]


def test_a_reply_has_choices_and_usage():
    body = reply_body(CHAT, ANSWERS, 7, "x")

    assert (body["id"], body["object"], body["model"]) == (
        "chatcmpl-x",
        "chat.completion",
        "policy",
    )
    assert body["usage"] == {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
    assert body["choices"] == [
        {
            "index": number,
            "message": {"role": "assistant", "content": content},
            "finish_reason": finish,
            "logprobs": None,
        }
        for number, (content, finish) in enumerate([("aé", "stop"), ("b", "length")])
    ]


def test_log_probs_of_a_chat():
    first, second = reply_body(CompletionRequest(True, log_probs=True), ANSWERS, 7, "x")["choices"]

    assert first["logprobs"]["content"] == [
        {"token": "a", "logprob": -0.25, "bytes": [97], "top_logprobs": []},
        {"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": []},
        {"token": "", "logprob": -1.0, "bytes": [], "top_logprobs": []},
    ]
    assert [each["logprob"] for each in second["logprobs"]["content"]] == [-2.0]


def test_a_completion_has_text_offsets():
    calls = CompletionRequest(False, log_probs=True)
    longer = ReplyChoice("abab|", [], "stop", [b"ab", b"\xc3\xa9", b"|"], [-1.0, -2.0, -3.0])

    body = reply_body(calls, [longer, ANSWERS[1]], 2, "x")

    assert (body["id"], body["object"]) == ("cmpl-x", "text_completion")
    assert body["choices"][0] == {
        "index": 0,
        "text": "abab|",
        "finish_reason": "stop",
        "logprobs": {
            "tokens": ["ab", "é", "|"],
            "token_logprobs": [-1.0, -2.0, -3.0],
            "top_logprobs": None,
            "text_offset": [0, 2, 3],
        },
    }
    assert body["choices"][1]["index"] == 1
    (bare,) = reply_body(CompletionRequest(False), [ANSWERS[1]], 2, "x")["choices"]
    assert bare["logprobs"] is None
    (empty,) = reply_body(
        CompletionRequest(False), [ReplyChoice(None, [], "stop", [b""], [0.0])], 2, "x"
    )["choices"]
    assert empty["text"] == ""


def chunks(asked, answers):
    whole = reply_body(asked, answers, 7, "x")
    *lines, end, rest = reply_events(asked, whole).decode().split("\n\n")
    assert (end, rest) == ("data: [DONE]", "")
    actual = [json.loads(line.removeprefix("data: ")) for line in lines]
    for chunk in actual:
        assert (chunk["id"], chunk["created"]) == (whole["id"], whole["created"])
    return actual


@pytest.mark.parametrize("usage", [True, False])
def test_a_chat_stream_has_two_chunks_per_choice_and_optional_usage(usage):
    actual = chunks(CompletionRequest(True, stream=True, usage=usage, log_probs=True), ANSWERS)

    assert {chunk["object"] for chunk in actual} == {"chat.completion.chunk"}
    deltas = [chunk["choices"][0] for chunk in actual if chunk["choices"]]
    assert [each["index"] for each in deltas] == [0, 0, 1, 1]
    assert [each["delta"] for each in deltas] == [
        {"role": "assistant", "content": "aé"}, {}, {"role": "assistant", "content": "b"}, {},
    ]  # fmt: skip
    assert [each["finish_reason"] for each in deltas] == [None, "stop", None, "length"]
    assert [each.get("logprobs") is not None for each in deltas] == [True, False, True, False]
    # The usage stands in a chunk of its own, which has no choice, and in no other.
    replies = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
    assert [chunk.get("usage") for chunk in actual] == [None] * 4 + [replies] * usage
    assert [chunk["choices"] for chunk in actual[4:]] == [[]] * usage


def test_a_completion_stream_has_one_chunk_per_choice():
    calls = CompletionRequest(False, stream=True, usage=True)

    actual = chunks(calls, ANSWERS)

    assert {chunk["object"] for chunk in actual} == {"text_completion"}
    assert [chunk["choices"] for chunk in actual] == [
        [each] for each in reply_body(calls, ANSWERS, 7, "x")["choices"]
    ] + [[]]
    assert actual[-1]["usage"]["total_tokens"] == 11


def test_tool_calls_of_a_stream_are_numbered():
    calls = [{"id": "p", "function": {}}, {"id": "q", "function": {}}]

    first, last = chunks(
        CompletionRequest(True, stream=True), [ReplyChoice(None, calls, "tool_calls", [], [])]
    )

    delta = first["choices"][0]["delta"]
    assert delta["tool_calls"] == [{"index": 0, **calls[0]}, {"index": 1, **calls[1]}]
    assert delta["content"] is None
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    whole = reply_body(CHAT, [ReplyChoice("a", calls, "tool_calls", [], [])], 1, "x")
    assert whole["choices"][0]["message"]["tool_calls"] == calls


CALL_TABLE = [
    b"",
    b"let me see ",
    b'<tool_call>{"name":"f",  "arguments":{"x":1}}</tool_call>',
    b"\xc3",
]
CALL_TEXT = 'let me see <tool_call>{"name":"f",  "arguments":{"x":1}}</tool_call>'


def call(name="f", arguments='{"x": 1}', id="call_0"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message(*calls, content="let me see", **more):
    return {"role": "assistant", "content": content, "tool_calls": [*calls], **more}


@pytest.fixture
def cache():
    cache = RawToolCallCache()
    answer = ReplyChoice("let me see", [call(), call("g", id="call_1")], "tool_calls", [], [])
    cache.store(answer, TurnSample([1, 2], [0.0, 0.0], False), CALL_TABLE)
    return cache


@pytest.mark.parametrize("arguments", ['{"x": 1}', '{"x":1}', {"x": 1}])
def test_unchanged_tool_calls_are_replaced_by_the_sampled_text(cache, arguments):
    user = {"role": "user", "content": "a"}
    back = message(call(arguments=arguments), call("g", arguments, "call_1"), name="policy")

    assert cache.as_sampled([user, back]) == [user, {"role": "assistant", "content": CALL_TEXT}]


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
def test_changed_messages_are_not_replaced(cache, changed):
    assert cache.as_sampled([changed]) == [changed]


def test_an_answer_of_tool_calls_alone_has_no_content():
    cache = RawToolCallCache()
    cache.store(
        ReplyChoice(None, [call()], "tool_calls", [], []),
        TurnSample([2, 3], [0.0] * 2, False),
        CALL_TABLE,
    )

    (actual,) = cache.as_sampled([message(call(), content="")])

    assert actual == {"role": "assistant", "content": CALL_TEXT.removeprefix("let me see ") + "�"}


def test_answers_without_tool_calls_are_not_stored():
    cache = RawToolCallCache()
    cache.store(ReplyChoice("a", [], "stop", [], []), TurnSample([1], [0.0], False), CALL_TABLE)

    assert cache.as_sampled([message(call())]) == [message(call())]
    assert json.dumps(cache.as_sampled([])) == "[]"

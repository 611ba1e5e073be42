"""Replies of the endpoint by hand: what a client is told of what the policy sampled."""

import json

import pytest

from rlcomp.endpoint.reply import ReplyChoice, choice_of_turn, reply_body, reply_events
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


def told(ids, asked=CHAT, *, truncated=False):
    return choice_of_turn(TurnSample(ids, [-0.5] * len(ids), truncated), asked, TABLE, "name")


def test_an_answer_is_the_text_of_its_tokens():
    found = told([1, 2, 4, 5, 0])

    assert found == ReplyChoice("abé", [], "stop", [b"a", b"b", b"\xc3", b"\xa9", b""], [-0.5] * 5)
    assert told([1, 4]).content == "a�"


@pytest.mark.parametrize(
    ("stops", "content"),
    [((), "ab|b"), (("|",), "ab"), (("b", "|"), "a"), (("|", "b"), "a"), (("c",), "ab|b")],
)
def test_a_text_ends_before_the_first_thing_that_stops_it(stops, content):
    assert told([1, 2, 3, 2], CompletionRequest(True, stops=stops)).content == content


def test_why_an_answer_ended():
    with_tools = CompletionRequest(True, tools=TOOLS)

    assert told([1], truncated=True).finish == "length"
    assert told([6, 7], with_tools).finish == "tool_calls"
    assert told([6, 7], with_tools, truncated=True).finish == "length"
    assert told([6, 7]).finish == "stop"


def test_calls_are_read_where_tools_are_there_and_leave_the_text():
    with_tools = CompletionRequest(True, tools=TOOLS)
    call = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}

    alone = told([6, 7], with_tools)
    among = told([1, 6, 7, 6, 7, 2], with_tools)

    assert alone.calls == [{"id": "call_name_0", **call}]
    assert alone.content is None
    assert [each["id"] for each in among.calls] == ["call_name_0", "call_name_1"]
    assert among.content == "ab"
    # Without tools, or where a call is wrong, it is text.
    assert told([1, 6, 7]).calls == told([1, 8, 7], with_tools).calls == []
    assert told([1, 8, 7], with_tools).content == "a<tool_call>{</tool_call>"


ANSWERS = [
    ReplyChoice("aé", [], "stop", [b"a", b"\xc3\xa9", b""], [-0.25, -0.5, -1.0]),
    ReplyChoice("b", [], "length", [b"b"], [-2.0]),
]


def test_a_reply_has_its_choices_and_counts_tokens():
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


def test_log_probs_of_a_chat_are_told_of_each_token():
    first, second = reply_body(CompletionRequest(True, log_probs=True), ANSWERS, 7, "x")["choices"]

    assert first["logprobs"]["content"] == [
        {"token": "a", "logprob": -0.25, "bytes": [97], "top_logprobs": []},
        {"token": "é", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": []},
        {"token": "", "logprob": -1.0, "bytes": [], "top_logprobs": []},
    ]
    assert [each["logprob"] for each in second["logprobs"]["content"]] == [-2.0]


def test_a_completion_is_text_with_places_of_its_tokens():
    asked = CompletionRequest(False, log_probs=True)
    longer = ReplyChoice("abab|", [], "stop", [b"ab", b"\xc3\xa9", b"|"], [-1.0, -2.0, -3.0])

    body = reply_body(asked, [longer, ANSWERS[1]], 2, "x")

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
    found = [json.loads(line.removeprefix("data: ")) for line in lines]
    for chunk in found:
        assert (chunk["id"], chunk["created"]) == (whole["id"], whole["created"])
    return found


@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_of_a_chat_has_two_chunks_a_choice_and_the_usage_if_asked_for(usage):
    found = chunks(CompletionRequest(True, stream=True, usage=usage, log_probs=True), ANSWERS)

    assert {chunk["object"] for chunk in found} == {"chat.completion.chunk"}
    deltas = [chunk["choices"][0] for chunk in found if chunk["choices"]]
    assert [each["index"] for each in deltas] == [0, 0, 1, 1]
    assert [each["delta"] for each in deltas] == [
        {"role": "assistant", "content": "aé"}, {}, {"role": "assistant", "content": "b"}, {},
    ]  # fmt: skip
    assert [each["finish_reason"] for each in deltas] == [None, "stop", None, "length"]
    assert [each.get("logprobs") is not None for each in deltas] == [True, False, True, False]
    # The usage stands in a chunk of its own, which has no choice, and in no other.
    told = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
    assert [chunk.get("usage") for chunk in found] == [None] * 4 + [told] * usage
    assert [chunk["choices"] for chunk in found[4:]] == [[]] * usage


def test_a_stream_of_a_completion_has_a_chunk_a_choice():
    asked = CompletionRequest(False, stream=True, usage=True)

    found = chunks(asked, ANSWERS)

    assert {chunk["object"] for chunk in found} == {"text_completion"}
    assert [chunk["choices"] for chunk in found] == [
        [each] for each in reply_body(asked, ANSWERS, 7, "x")["choices"]
    ] + [[]]
    assert found[-1]["usage"]["total_tokens"] == 11


def test_calls_in_a_stream_are_numbered():
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

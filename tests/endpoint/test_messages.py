"""Messages of a request as chat templates take them; others are refused."""

import pytest

from rlcomp.endpoint.messages import read_messages
from rlcomp.endpoint.refused import RefusedError


def said(content, **more):
    return [{"role": "user", "content": content, **more}]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
    ],
)
def test_contents_are_texts(content, text):
    assert read_messages(said(content)) == [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        said("a") * 1001,
        ["a"],
        [{"role": "owner", "content": "a"}],
        said(["a"]),
        said([{"type": "image_url", "text": "a"}]),
        said([{"type": "text", "text": 1}]),
        said(1),
        said("a", name=1),
        said("a", tool_calls={}, name="b") + said("a", tool_calls={"id": "c"}),
        said("a", tool_calls=["a"]),
        said("a", tool_calls=[{"id": "c", "function": "f"}]),
        said("a", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{"}}]),
        said("a", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "[NaN]"}}]),
    ],
)
def test_what_is_no_message_is_refused(messages):
    with pytest.raises(RefusedError):
        read_messages(messages)


def test_a_thousand_messages_are_read():
    assert len(read_messages(said("a") * 1000)) == 1000


def test_arguments_of_calls_are_objects():
    calls = [
        {"id": "c", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"function": {"name": "g"}},
    ]

    (message,) = read_messages(said(None, tool_calls=calls, tool_call_id="d"))

    held = [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]
    assert message == {
        "role": "user",
        "content": "",
        "tool_call_id": "d",
        "tool_calls": [
            {"id": "c", "type": "function", "function": held[0]},
            {"id": "", "type": "function", "function": held[1]},
        ],
    }

"""What a client may ask of the endpoint, by hand; the rest is refused."""

import pytest

from rlcomp.endpoint.request import parse_body, read_chat, read_completion, read_messages
from rlcomp.endpoint.server import RefusedError
from rlcomp.engine.decoding import Decoding

AS_IT_IS = (Decoding(),)
SAID = [{"role": "user", "content": "a"}]


def completion(**more):
    return read_completion({"prompt": "a", **more}, AS_IT_IS)


def test_a_completion_has_one_prompt():
    calls = completion()

    assert (calls.chat, calls.prompt, calls.n, calls.stops, calls.log_probs) == (
        False, "a", 1, (), False,
    )  # fmt: skip
    assert completion(prompt=["b"]).prompt == "b"


@pytest.mark.parametrize("prompt", [None, 1, [], ["a", "b"], [1], [[1, 2]]])
def test_other_prompts_are_refused(prompt):
    with pytest.raises(RefusedError, match="prompt must be one text"):
        completion(prompt=prompt)


@pytest.mark.parametrize(
    ("given", "told"), [(None, False), (False, False), (0, True), (1, True), (True, True)]
)
def test_log_probs_of_sampled_tokens_may_be_requested(given, told):
    # 0 asks for those of the sampled token and of no alternatives.
    assert completion(logprobs=given).log_probs == (told or (given == 0 and given is not False))


@pytest.mark.parametrize("given", [2, "1", -1])
def test_log_probs_of_other_tokens_are_refused(given):
    with pytest.raises(RefusedError, match="logprobs"):
        completion(logprobs=given)


@pytest.mark.parametrize(
    ("given", "stops"), [(None, ()), ("a", ("a",)), ([], ()), (["b", "a", "b"], ("b", "a"))]
)
def test_stop_texts(given, stops):
    assert completion(stop=given).stops == stops


@pytest.mark.parametrize("given", [1, {"a": 1}, [""], [1], ["a"] * 17])
def test_invalid_stop_texts_are_refused(given):
    with pytest.raises(RefusedError, match="stop must"):
        completion(stop=given)


def test_at_most_sixteen_stop_texts():
    assert completion(stop=["a"] * 16).stops == ("a",)


def test_tools_are_a_list_of_objects_unless_tool_choice_is_none():
    tool = {"type": "function", "function": {"name": "f"}}

    assert read_chat({"messages": SAID, "tools": [tool]}, AS_IT_IS).tools == [tool]
    assert read_chat({"messages": SAID, "tools": [1], "tool_choice": "none"}, AS_IT_IS).tools == []
    for wrong in ({"a": 1}, [1]):
        with pytest.raises(RefusedError, match="tools must be"):
            read_chat({"messages": SAID, "tools": wrong}, AS_IT_IS)


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'{"a": NaN}', b"{" * 2000, b"\xff"])
def test_a_body_is_a_json_object(body):
    with pytest.raises(RefusedError):
        parse_body(body)


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, False), (None, False), ({"include_usage": True}, True), ({"include_usage": 1}, False)],
)
def test_include_usage_of_a_stream(options, told):
    assert completion(stream=True, stream_options=options).usage is told


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("n", 1, 64),
        ("max_tokens", 1, 2**31),
        ("max_completion_tokens", 1, 2**31),
        ("seed", -(2**63), 2**63),
    ],
)
def test_integers_are_bounded(name, least, most):
    field = "max_tokens" if name == "max_completion_tokens" else name
    for value in (least, most):
        assert getattr(completion(**{name: value}), field) == value
    for wrong in (least - 1, most + 1, 1.0, True, "1"):
        with pytest.raises(RefusedError, match=name):
            completion(**{name: wrong})


def test_a_chat_has_messages_and_a_completion_a_prompt():
    chat = read_chat({"messages": SAID}, AS_IT_IS)

    assert (chat.chat, chat.messages, chat.tools, chat.prompt) == (True, SAID, [], "")
    assert (completion().chat, completion().messages) == (False, [])


def test_a_lone_surrogate_is_refused_in_every_field():
    for use in (
        lambda: completion(prompt="\ud800"),
        lambda: completion(prompt=["\ud800"]),
        lambda: completion(stop="\ud800"),
        lambda: completion(stop=["a", "\ud800"]),
        lambda: read_chat({"messages": [{"role": "user", "content": "\ud800"}]}, AS_IT_IS),
    ):
        with pytest.raises(RefusedError, match="lone surrogate"):
            use()


def test_the_smaller_token_limit_applies():
    assert completion(max_tokens=5, max_completion_tokens=3).max_tokens == 3
    assert completion(max_tokens=2, max_completion_tokens=3).max_tokens == 2
    assert completion().max_tokens is None
    assert completion(seed=0).seed == 0
    assert completion().seed is None


@pytest.mark.parametrize(("given", "flag"), [(None, False), (False, False), (True, True)])
def test_stream_is_a_boolean(given, flag):
    assert completion(stream=given).stream is flag
    assert read_chat({"messages": SAID, "logprobs": given}, AS_IT_IS).log_probs is flag
    for wrong in ("yes", 2, []):
        with pytest.raises(RefusedError, match="stream"):
            completion(stream=wrong)


PLAIN = {
    "frequency_penalty": (0, 0.5),
    "presence_penalty": (0, 0.5),
    "repetition_penalty": (1, 1.5),
    "logit_bias": ({}, {"5": 1}),
    "best_of": (1, 2),
    "echo": (False, True),
    "suffix": ("", "a"),
    "top_logprobs": (0, 2),
    "response_format": ({"type": "text"}, {"type": "json_object"}),
    "tool_choice": ("required", {"type": "function"}),
}


@pytest.mark.parametrize("name", PLAIN)
def test_unsupported_options_need_their_default(name):
    allowed, refused = PLAIN[name]

    assert completion(**{name: allowed}) == completion(**{name: None}) == completion()
    with pytest.raises(RefusedError, match=name):
        completion(**{name: refused})


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "min_p"])
def test_decoding_options_must_be_those_of_the_policy(name):
    own, greedy = Decoding(top_k=3, min_p=0.25), Decoding(temperature=0.0, top_p=0.5)

    for decoding in (own, greedy):
        read_completion({"prompt": "a", name: getattr(decoding, name)}, (own, greedy))
    for wrong in (0.75, True, "1"):
        with pytest.raises(RefusedError, match=name) as refused:
            read_completion({"prompt": "a", name: wrong}, (own, greedy))
        assert refused.value.code == "unsupported_value"


def test_fields_without_effect_are_ignored_and_unknown_ones_refused():
    assert completion(model="gpt", user="me", metadata={}) == completion()
    for wrong in ({"no_such": 1}, {"messages": SAID}):
        with pytest.raises(RefusedError, match="is not supported"):
            completion(**wrong)


@pytest.mark.parametrize(("given", "n"), [(None, 1), (1, 1), (3, 3)])
def test_n_is_the_number_of_answers(given, n):
    assert completion(n=given).n == n


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
def test_invalid_messages_are_refused(messages):
    with pytest.raises(RefusedError):
        read_messages(messages)


def test_at_most_a_thousand_messages():
    assert len(read_messages(said("a") * 1000)) == 1000


def test_arguments_of_tool_calls_are_parsed():
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

"""What a client may ask of the endpoint, by hand; the rest is refused."""

import pytest

from rlcomp.endpoint.refused import RefusedError
from rlcomp.endpoint.request import parsed, read_chat, read_completion
from rlcomp.engine.decoding import Decoding

AS_IT_IS = (Decoding(),)
SAID = [{"role": "user", "content": "a"}]


def completion(**more):
    return read_completion({"prompt": "a", **more}, AS_IT_IS)


def test_a_completion_goes_on_with_one_text():
    asked = completion()

    assert (asked.chat, asked.prompt, asked.n, asked.stops, asked.log_probs) == (
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
def test_log_probs_of_sampled_tokens_are_told_if_they_are_asked_for(given, told):
    # 0 asks for those of the sampled token and of no alternatives.
    assert completion(logprobs=given).log_probs == (told or (given == 0 and given is not False))


@pytest.mark.parametrize("given", [2, "1", -1])
def test_log_probs_of_other_tokens_are_refused(given):
    with pytest.raises(RefusedError, match="logprobs"):
        completion(logprobs=given)


@pytest.mark.parametrize(
    ("given", "stops"), [(None, ()), ("a", ("a",)), ([], ()), (["b", "a", "b"], ("b", "a"))]
)
def test_texts_that_end_an_answer(given, stops):
    assert completion(stop=given).stops == stops


@pytest.mark.parametrize("given", [1, {"a": 1}, [""], [1], ["a"] * 17])
def test_no_texts_that_end_an_answer(given):
    with pytest.raises(RefusedError, match="stop must"):
        completion(stop=given)


def test_sixteen_texts_may_end_an_answer():
    assert completion(stop=["a"] * 16).stops == ("a",)


def test_tools_of_a_chat_are_a_list_of_objects_unless_none_shall_be_called():
    tool = {"type": "function", "function": {"name": "f"}}

    assert read_chat({"messages": SAID, "tools": [tool]}, AS_IT_IS).tools == [tool]
    assert read_chat({"messages": SAID, "tools": [1], "tool_choice": "none"}, AS_IT_IS).tools == []
    for wrong in ({"a": 1}, [1]):
        with pytest.raises(RefusedError, match="tools must be"):
            read_chat({"messages": SAID, "tools": wrong}, AS_IT_IS)


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'{"a": NaN}', b"{" * 2000, b"\xff"])
def test_a_body_is_an_object_of_json(body):
    with pytest.raises(RefusedError):
        parsed(body)


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, False), (None, False), ({"include_usage": True}, True), ({"include_usage": 1}, False)],
)
def test_usage_is_told_behind_a_stream_that_asks_for_it(options, told):
    assert completion(stream=True, stream_options=options).usage is told


@pytest.mark.parametrize(("given", "n"), [(None, 1), (1, 1), (3, 3)])
def test_so_many_answers_are_asked_for(given, n):
    assert completion(n=given).n == n

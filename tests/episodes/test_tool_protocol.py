import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.episodes.tool_protocol import JsonCalls, ParsedTurn, Tags, neutralise
from rlcomp.errors import ConfigError

TWO = ["search", "add"]


def called(protocol, action, tools=TWO):
    call, wrong = protocol.read(action, tools)
    return (call.name, call.positional, call.arguments) if call else wrong


def test_a_turn_that_ends_in_a_closing_tag_is_a_call():
    tags = Tags()

    assert tags.stops(TWO) == ("</search>", "</add>", "</answer>")
    assert called(tags, "so <search>who</search>") == ("search", ("who",), {})
    assert called(tags, "<add>1+2</add>") == ("add", ("1+2",), {})
    # Of several the last one; a stray opening tag begins it anew.
    assert called(tags, "<search>a</search><search>b<search>c</search>")[1] == ("c",)


@pytest.mark.parametrize("action", ["<answer>7</answer>", "7", "", "<search>who"])
def test_a_turn_that_ends_otherwise_is_an_answer(action):
    assert Tags().read(action, TWO) == ParsedTurn()


def test_a_closing_tag_alone_is_told():
    assert called(Tags(), "who</search>") == "the call of search has no opening tag"
    # The other tool's tag opens nothing.
    assert called(Tags(), "<add>who</search>") == "the call of search has no opening tag"


def test_an_opening_tag_within_the_closing_one_opens_nothing():
    tags = Tags(opening="/", closing="/.")

    assert tags.read("1/.", ["a"]).fault == "the call of a has no opening tag"


def test_results_stand_between_their_tags():
    assert Tags().format_result("gold", TWO) == ("<information>gold", "</information>")
    assert Tags(before="", after="|").format_result("gold", TWO) == ("gold", "|")


def test_one_tool_needs_no_name_and_two_do():
    short = Tags(opening="<", closing=">", answer=None)

    assert short.stops(["add"]) == (">",)
    assert called(short, "<1+2>", ["add"]) == ("add", ("1+2",), {})
    with pytest.raises(ConfigError, match=r"2 tools \(search, add\) need tags of their own"):
        short.stops(TWO)
    # The same openings with different closings are as bad.
    with pytest.raises(ConfigError, match="need tags of their own"):
        Tags(opening="<").stops(TWO)
    with pytest.raises(ConfigError, match="opening and closing are both '<'"):
        Tags(opening="<", closing="<")


def test_json_calls():
    calls = JsonCalls()
    text = '<tool_call>{"name": "search", "arguments": {"query": "who"}}</tool_call>'

    assert calls.stops(TWO) == ("</tool_call>",)
    assert called(calls, f"Well. {text}") == ("search", (), {"query": "who"})
    assert calls.read("It is 7.", TWO) == ParsedTurn()
    assert called(calls, text.replace("search", "find")) == (
        "there is no tool 'find': there are search, add"
    )
    assert called(calls, "<tool_call>7</tool_call>").startswith("call 1 must be one object")
    assert calls.format_result("a", TWO) == ("<tool_response>a", "</tool_response>")


MARKS = ["<information>", "</information>", "<search>", "</search>", "<answer>", "</answer>", "|"]


@given(st.lists(st.sampled_from([*MARKS, "<", "</", "information>", "search>", "x"]), max_size=12))
def test_no_mark_is_left(pieces):
    text = neutralise("".join(pieces), MARKS)

    assert not any(mark in text for mark in MARKS)


def test_what_is_no_mark_stays():
    assert neutralise("1 < 2 > <b> x", MARKS) == "1 < 2 > <b> x"
    assert neutralise("a|b", ["|", ""]) == "ab"
    assert neutralise("ab", []) == "ab"


def test_tags_that_stand_in_one_another_without_end_are_taken_apart():
    deep = "<" * 40 + "information>" * 40

    assert "<information>" not in neutralise(deep, MARKS)
    nested = "</information>"
    for _ in range(20):
        nested = nested[:5] + nested + nested[5:]
        nested = nested[:4000]
    assert "</information>" not in neutralise(nested, MARKS)

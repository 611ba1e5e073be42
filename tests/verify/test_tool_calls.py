import gzip
import json
import time
import warnings

import pytest

from components.reward.tools import ToolCalls
from rlcomp.episodes.tool_calls import parse_calls
from rlcomp.errors import DataError
from rlcomp.verify.tool_calls import (
    CallError,
    json_call,
    json_value,
    outside_calls,
    read_calls,
    tagged_calls,
)
from rlcomp.verify.tool_match import tool_match

GOLD = [{"m.add": {"a": [1], "b": [2, 3], "c": ["", 0]}}]


@pytest.mark.parametrize(
    "response",
    [
        "[m.add(a=1, b=2)]",
        "m.add(b=3, a=1)",
        "m.add(a=1.0, b=2, c=0)",
        "```python\n[m.add(a=1, b=2)]\n```",
        '{"name": "m.add", "arguments": {"a": 1, "b": 2}}',
        '```json\n[{"name": "m.add", "parameters": {"a": 1, "b": 2}}]\n```',
        '{"type": "function", "function": {"name": "m.add", "arguments": {"a": 1, "b": 2}}}',
        'I call it: <tool_call>\n{"name": "m.add", "arguments": {"a": 1, "b": 2}}\n</tool_call>',
        "<tool_call>m.add(a=1, b=2)</tool_call>",
        "<think>[f()]</think> [m.add(a=1, b=2)]",
    ],
)
def test_a_call_is_read_in_several_forms(response):
    assert tool_match(response, GOLD) == 1.0


@pytest.mark.parametrize(
    "response",
    [
        "",
        "I would add 1 and 2.",
        "[m.add(a=1, b=2)] and that is it",
        "[add(a=1, b=2)]",
        "[m.add(a=1)]",
        "```[m.add(a=1, b=2)]",
        "[m.add(a=1, b=2)]```",
        "[m.add(1, 2)]",
        "[m.add(a=1, b=4)]",
        "[m.add(a=1, b=2, c=1)]",
        "[m.add(a=1, b=2, d=1)]",
        "[m.add(a=9, a=1, b=2)]",
        "[m.add(a=True, b=2)]",
        "[m.add(a='1', b=2)]",
        "[m.add(a=1, b=1+1)]",
        "[m.add(**{'a': 1, 'b': 2})]",
        "[m.add(a=1, b=2), m.add(a=1, b=2)]",
        "[m.add(a=1, b=2), 5]",
        "[]",
        '{"name": "m.add"}',
        '{"name": ["m.add"], "arguments": {"a": 1, "b": 2}}',
        '{"name": "m.add", "arguments": [1, 2]}',
        "<tool_call>m.add(a=1, b=2)</tool_call><tool_call>no</tool_call>",
        "[m.add(a=1, b=2)" + " " * 10_000 + "]",
    ],
)
def test_any_other_call_is_wrong(response):
    assert tool_match(response, GOLD) == 0.0


def test_texts_are_compared_without_case_and_punctuation():
    gold = [{"find": {"place": ["Paris, France"]}}]

    assert tool_match("find(place='paris france')", gold) == 1.0
    assert tool_match("find(place='Paris')", gold) == 0.0
    assert tool_match("find(place='')", [{"find": {"place": ["", "x"]}}]) == 1.0
    assert tool_match("find(place='')", [{"find": {"place": ["x"]}}]) == 0.0


def test_lists_and_mappings_with_alternatives():
    gold = [{"f": {"xs": [[1, 2], [3]], "box": [{"w": [1, 2], "h": ["", 5]}], "on": [True]}}]

    assert tool_match("f(xs=[3], box={'w': 2}, on=True)", gold) == 1.0
    assert tool_match("f(xs=(1, 2), box={'w': 1, 'h': 5}, on=True)", gold) == 1.0
    assert tool_match("f(xs=[2, 1], box={'w': 2}, on=True)", gold) == 0.0
    assert tool_match("f(xs=[3], box={'h': 5}, on=True)", gold) == 0.0
    assert tool_match("f(xs=[3], box={'w': 2, 'd': 1}, on=True)", gold) == 0.0
    assert tool_match("f(xs=[3], box={'w': 2, 'h': 4}, on=True)", gold) == 0.0
    assert tool_match("f(xs=[3], box=[2], on=True)", gold) == 0.0
    assert tool_match("f(xs=3, box={'w': 2}, on=True)", gold) == 0.0
    assert tool_match("f(xs=[3], box={'w': 2}, on=1)", gold) == 0.0


def test_parallel_calls_are_a_set_and_each_gold_call_counts_once():
    # The first call fits both gold calls, the second only the first: one of each is needed.
    gold = [{"f": {"a": [1, 2]}}, {"f": {"a": [1]}}]

    assert tool_match("[f(a=1), f(a=2)]", gold) == 1.0
    assert tool_match("[f(a=2), f(a=1)]", gold) == 1.0
    assert tool_match("[f(a=2), f(a=2)]", gold) == 0.0
    assert tool_match("[f(a=1)]", gold) == 0.0


def test_irrelevance_allows_no_call():
    assert tool_match("None of the tools can do that.", []) == 1.0
    assert tool_match("", []) == 1.0
    assert tool_match("[f(a=1)]", []) == 0.0
    assert tool_match("<tool_call>f()</tool_call>", []) == 0.0


@pytest.mark.parametrize("text", ["{[1]: 2}", "{[1]}", "{{}: 1}"])
def test_an_argument_that_python_cannot_hold_is_none(text):
    assert read_calls(f"f(a={text})") is None


def test_python_warns_of_no_escape():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an invalid escape warns

        assert read_calls(r"f(a='\d')") == [("f", {"a": r"\d"})]


def test_calls_are_read():
    assert read_calls('[{"name": "f", "arguments": {}}, 5]') is None
    assert read_calls("f(a={'b': [1, None]})") == [("f", {"a": {"b": [1, None]}})]


@pytest.mark.parametrize(
    "text", ["[" * 9_000, "-" * 9_000 + "1", "a" + ".b" * 4_900, "1" + "+1" * 4_900, "f(" * 4_900]
)
def test_hostile_text_is_read_at_once(text):
    start = time.thread_time()

    assert read_calls(text) is None
    assert read_calls(f"f(a={text})") is None
    assert time.thread_time() - start < 20


def test_the_reward_needs_the_column():
    row = {"prompt": "", "response": "f(a=1)", "answer": ""}

    assert ToolCalls().score_row(row | {"ground_truth": [{"f": {"a": [1]}}]}) == 1.0
    assert ToolCalls().score_row(row | {"ground_truth": []}) == 0.0
    with pytest.raises(DataError, match="reward=tool_calls needs the column 'ground_truth'"):
        ToolCalls().score_row(row)


def concrete(option):
    """The first alternatives of a gold argument, as a model would write them."""
    if isinstance(option, dict):
        first = {key: value[0] for key, value in option.items()}
        return {key: concrete(value) for key, value in first.items() if value != ""}
    return [concrete(one) for one in option] if isinstance(option, list) else option


@pytest.mark.parametrize("name", ["simple_python", "multiple", "parallel", "parallel_multiple"])
def test_the_gold_calls_of_bfcl_match_themselves_and_no_mutant(shared_data, name):
    with gzip.open(shared_data / "tools" / f"bfcl_{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]

    assert rows
    for row in rows:
        calls = [
            {"name": tool, "arguments": concrete({k: v for k, v in given.items() if v[0] != ""})}
            for entry in row["ground_truth"]
            for tool, given in entry.items()
        ]
        lone = [calls[0] | {"name": "other"}, *calls[1:]]
        more = [calls[0] | {"arguments": calls[0]["arguments"] | {"another": 1}}, *calls[1:]]
        assert tool_match(json.dumps(calls[::-1]), row["ground_truth"]) == 1.0, row["id"]
        for mutant in (lone, more, calls[1:], [*calls, calls[0]]):
            assert tool_match(json.dumps(mutant), row["ground_truth"]) == 0.0, row["id"]


def tagged(**entries):
    return f"<tool_call>{json.dumps(entries)}</tool_call>"


LITERAL = tagged(name="write", arguments={"text": "a </tool_call> <tool_call> b"})
READ = tagged(name="read", parameters={"path": "a"})


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        (LITERAL, [("write", {"text": "a </tool_call> <tool_call> b"})]),
        (
            f"I do {LITERAL} and\n{READ}.",
            [("write", {"text": "a </tool_call> <tool_call> b"}), ("read", {"path": "a"})],
        ),
        (READ, [("read", {"path": "a"})]),
        (f"{READ}</tool_call>", None),
        (f"{READ}<tool_call>", None),
        (f"<tool_call>{READ}</tool_call>", None),
        (tagged(name="f", arguments={}, parameters={}), None),
        ('<tool_call>"</tool_call>', None),
    ],
)
def test_a_reward_and_an_environment_read_the_same_calls(message, calls):
    result = parse_calls(message)

    assert read_calls(message) == calls
    assert calls == (None if isinstance(result, str) else [(c.name, c.arguments) for c in result])


def test_text_around_calls_is_returned():
    text = f"a{LITERAL}b{READ}c"

    assert outside_calls(text, tagged_calls(text)) == ["a", "b", "c"]
    assert [text[call.start : call.end] for call in tagged_calls(text)] == [LITERAL, READ]


def test_many_tags_take_time_in_proportion():
    start = time.thread_time()

    assert len(tagged_calls("<tool_call>" * 50_000 + "x" * 10**6 + "</tool_call>")) == 50_000
    assert time.thread_time() - start < 5


@pytest.mark.parametrize("piece", ["<tool_call>", '<tool_call>"', "<tool_call>[[", "</tool_call>"])
def test_hostile_tags_are_read_at_once(piece):
    start = time.thread_time()

    assert isinstance(parse_calls(piece * 8_000), str)
    assert read_calls((piece * 9_000)[:10_000]) is None
    assert time.thread_time() - start < 20


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f", "arguments": {"a": 1, "a": 1}}',
        '{"name": "f", "name": "f", "arguments": {"a": 1}}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": 1e999}}',
        '{"name": "f", "arguments": {"a": 1}, "id": 3}',
        '{"name": "f", "arguments": {"a": 1}, "parameters": {"a": 1}}',
        '{"name": "", "arguments": {}}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": {"a": "\\ud800"}}',
        '{"name": "f", "arguments": {"a": ' + "[" * 40 + "]" * 40 + "}}",
        "[" * 3_000,
        '{"name": "f", "arguments": {"a": ' + "1" * 5_000 + "}}",
    ],
)
def test_json_that_an_environment_refuses_earns_nothing(body):
    result = parse_calls(f"<tool_call>{body}</tool_call>")

    assert isinstance(result, str)
    assert result.startswith("call 1")
    assert read_calls(f"<tool_call>{body}</tool_call>") is None
    assert read_calls(body) is None
    with pytest.raises((CallError, RecursionError)):
        json_call(body)


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "f"}',
        '{"name": "f", "parameters": {"a": [1, {"b": null}]}}',
        ' {"name": "f", "arguments": {"a": "</tool_call>"}} ',
    ],
)
def test_json_is_read_alike_by_rewards_and_environments(body):
    (call,) = parse_calls(f"<tool_call>{body}</tool_call>")

    assert read_calls(f"<tool_call>{body}</tool_call>") == [(call.name, call.arguments)]
    assert json_call(body) == (call.name, call.arguments)


def test_the_object_around_a_call_of_openai_holds_nothing_else():
    inside = '"function": {"name": "f", "arguments": {}}'

    assert read_calls(f'{{"type": "function", "id": "1", {inside}}}') == [("f", {})]
    assert read_calls(f'{{"kind": "function", {inside}}}') is None
    assert read_calls('{"type": "function"}') is None
    assert read_calls("[3]") is None


@pytest.mark.parametrize(("more", "fault"), [(0, None), (1, "10001 characters")])
def test_a_tag_is_text_in_a_call_of_the_greatest_length(more, fault):
    body = '{"name": "f", "arguments": {"a": "</tool_call>%s"}}'
    text = f"<tool_call>{body % ('x' * (10_000 + more - len(body % '')))}</tool_call>"

    result = parse_calls(text)

    assert fault in result if fault else len(result) == 1
    assert (read_calls(text) is None) == bool(fault)


@pytest.mark.parametrize("number", [16, 17])
def test_as_many_calls_as_an_environment_takes_are_read(number):
    text = '<tool_call>{"name": "f"}</tool_call>' * number

    assert isinstance(parse_calls(text), str) == (number == 17)
    assert read_calls(text) == (None if number == 17 else [("f", {})] * 16)


def test_half_a_character_among_whole_ones_is_refused():
    with pytest.raises(CallError, match="holds a lone surrogate"):
        json_value(["whole", "a\ud800b"])

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcomp.episodes.tool_calls import ToolCall, parse_calls, parse_python_calls


def tagged(*bodies):
    return "".join(f"<tool_call>{body}</tool_call>" for body in bodies)


def test_each_pair_of_tags_is_a_call_and_what_stands_around_is_not_read():
    said = f'I look {tagged("""{"name": "ls"}""")} and then\n'
    said += tagged(' {"arguments": {"a": [1, 2.5, null, true, "x"]}, "name": "m.f"} ')

    assert parse_calls(said) == [
        ToolCall("ls", {}),
        ToolCall("m.f", {"a": [1, 2.5, None, True, "x"]}),
    ]


def test_without_a_tag_nothing_is_called():
    assert parse_calls("cd(folder='x') is what I would call") == []


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (tagged("cd(folder='x')"), "call 1 is not JSON: Expecting value"),
        (tagged('{"name": "f"}', "{'name': 'f'}"), "call 2 is not JSON"),
        (tagged('{"name": "f"} {"name": "g"}'), "call 1 is not JSON: Extra data"),
        (tagged('[{"name": "f"}]'), "must be one object"),
        (tagged('{"name": "f", "id": 3}'), "and nothing else"),
        (tagged('{"arguments": {}}'), '"name" must be'),
        (tagged('{"name": 3}'), '"name" must be'),
        (tagged('{"name": "f", "arguments": "{}"}'), '"arguments" must be an object'),
        (tagged('{"name": "f", "name": "g"}'), "there twice"),
        (tagged('{"name": "f", "arguments": {"a": NaN}}'), "NaN is not a number"),
        (tagged('{"name": "f", "arguments": {"a": -Infinity}}'), "-Infinity is not a number"),
        (tagged('{"name": "f", "arguments": {"a": 1e999}}'), "beyond what a float can"),
        (tagged('{"name": "f", "arguments": {"a": "\\ud800"}}'), "a lone surrogate"),
        (tagged('{"name": "f", "arguments": {"a": ' + "[" * 40 + "]" * 40 + "}}"), "32 deep"),
        (tagged('{"name": "f", "arguments": {"a": ' + "[" * 9000 + "}}"), "call 1 "),
        (tagged('{"name": "f", "arguments": {"a": ' + "9" * 9000 + "}}"), "too long"),
        (tagged('{"name": "' + "f" * 10_000 + '"}'), "at most 10000"),
        (tagged(*['{"name": "f"}'] * 17), "17 calls: at most 16"),
        ('<tool_call>{"name": "f"}', "call 1 must stand between"),
        ('{"name": "f"}</tool_call>', "</tool_call> without <tool_call>"),
        (tagged(tagged('{"name": "f"}')), "call 1 must stand between"),
        (tagged('{"name": "f"}') + "</tool_call>", "call 1 must stand between"),
    ],
)
def test_what_is_wrong_is_told_in_words(said, wrong):
    assert wrong in parse_calls(said)


def test_sixteen_calls_are_read():
    assert parse_calls(tagged(*['{"name": "f"}'] * 16)) == [ToolCall("f", {})] * 16

    assert parse_python_calls(f"[{'f(), ' * 16}]") == [ToolCall("f", {})] * 16


def test_an_argument_may_be_nested_32_deep():
    # The mapping of arguments is the first level.
    deep = "[" * 32 + "]" * 32

    assert isinstance(parse_calls(tagged(f'{{"name": "f", "arguments": {{"a": {deep}}}}}')), list)
    assert "32 deep" in parse_calls(tagged(f'{{"name": "f", "arguments": {{"a": [{deep}]}}}}'))


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("cd(folder='x')", [ToolCall("cd", {"folder": "x"})]),
        (
            " [f(), m.g(-1, b=(2, 'y'))] ",
            [ToolCall("f", {}), ToolCall("m.g", {"b": [2, "y"]}, (-1,))],
        ),
        ("f(a={'k': [True, None]})", [ToolCall("f", {"a": {"k": [True, None]}})]),
        ("[]", []),
    ],
)
def test_pythons_notation_gives_the_same_calls(said, calls):
    assert parse_python_calls(said) == calls


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("I would say cd(folder='x')", "is no call as in f(a=1)"),
        ("'x'", "must be a call"),
        ("[f(), 3]", "call 2 must be a call"),
        ("f(a=b)", "the argument b is no literal"),
        ("f(a=g())", "the argument g() is no literal"),
        ("f(a=__import__('os').getcwd())", "is no literal"),
        ("f(a=2**9)", "is no literal"),
        ("f(a={[]: 1})", "is no literal"),
        ("f(**{'a': 1})", "without **"),
        ("f(*[1])", "is no literal"),
        ("(lambda: 0)()", "by its name"),
        ("f()()", "by its name"),
        ("f(a={1, 2})", "a set"),
        ("f(a=b'x')", "a bytes"),
        ("f(a=1j)", "a complex"),
        ("f(a={1: 2})", "must be texts"),
        ("f(a=1e999)", "beyond what a float can"),
        ("f(a='\\ud800')", "a lone surrogate"),
        ("f(a=" + "[" * 40 + "]" * 40 + ")", "32 deep"),
        ("f(a=" + "(" * 4000 + ")" * 4000 + ")", "the turn "),
        ("f(a=" + "-" * 9000 + "1)", "nested too deeply"),
        ("f(a='" + "x" * 10_000 + "')", "at most 10000"),
        ("[" + "f(), " * 17 + "]", "17 calls: at most 16"),
        ("f(a=1, a=2)", "the argument a is there twice"),
        ("f(\0)", "is no call"),
        ("", "is no call"),
    ],
)
def test_what_is_wrong_in_pythons_notation_is_told_in_words(said, wrong):
    assert wrong in parse_python_calls(said)


@given(st.text() | st.text("<>/tol_ca{}[]\"':,1").map(lambda body: tagged(body)))
def test_no_text_makes_them_raise(said):
    limit = sys.getrecursionlimit()

    for found in (parse_calls(said), parse_python_calls(said)):
        assert isinstance(found, (list, str))
    assert sys.getrecursionlimit() == limit

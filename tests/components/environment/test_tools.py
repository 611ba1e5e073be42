import pytest

from components.environment.tools import Tools
from components.tool import Calculator
from rlcomp.arguments import Unbuilt
from rlcomp.episodes.tool_protocol import JsonCalls, Tags
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example
from rlcomp.interfaces.tool import ToolError


class Phone:
    """Knows the numbers of its example; ``bob`` is refused, ``eve`` breaks it."""

    closed = 0

    def begin(self, example):
        self.book = example.columns["book"]

    def __call__(self, query):
        if query == "bob":
            raise ToolError("no bob here")
        if query == "eve":
            raise RuntimeError("line dead")
        return self.book.get(query, "")

    def close(self):
        Phone.closed += 1


EXAMPLE = Example("?", "12", "", columns={"book": {"ann": "12", "cy": 7}})


def tools(**changed):
    made = Tools(**({"tools": {"phone": Phone, "add": Calculator}} | changed))
    made.reset(EXAMPLE, 0)
    return made


def test_calls_are_answered_until_a_turn_answers():
    made = tools()

    assert made.stops == ("</phone>", "</add>", "</answer>")
    said = made.step("<phone>ann</phone>")
    assert said == Turn(observation="<information>12", closing="</information>")
    assert made.step("<add>12+1</add>").observation == "<information>13"
    assert made.step("<answer>13</answer>") == Turn(done=True)


def test_facts_tell_what_was_called_to_what_effect():
    made = tools(prices={"phone": 2.0, "add": 0.5})
    for action in [
        "<phone>ann</phone>",
        "<phone>ann</phone>",
        "<phone>dan</phone>",  # found nothing
        "<phone>bob</phone>",  # refused
        "<add>1+</add>",  # refused
        "bob</phone>",  # malformed
        "<answer>12</answer>",
    ]:
        made.step(action)

    assert made.facts() == {
        "calls": 5.0,
        "tool_errors": 2.0,
        "useful_calls": 2.0,
        "malformed": 1.0,
        "calls_phone": 4.0,
        "calls_add": 1.0,
        "tools_used": 1.0,
        "cost": 8.5,
    }


def test_what_is_refused_is_told_and_what_breaks_breaks_the_episode():
    made = tools()

    assert made.step("<phone>bob</phone>").observation == "<information>error: no bob here"
    told = made.step("bob</phone>").observation
    assert told == "<information>error: the call of phone has no opening tag"
    with pytest.raises(RuntimeError, match="line dead"):
        made.step("<phone>eve</phone>")
    with pytest.raises(TypeError, match=r"the tool phone returned 7: must be a text"):
        made.step("<phone>cy</phone>")


def test_a_call_beyond_the_budget_is_not_made():
    made = tools(prices={"phone": 2.0}, budget=4.0)
    said = [made.step("<phone>ann</phone>").observation for _ in range(3)]

    assert said[1:] == ["<information>12", "<information>error: the budget is spent"]
    # What costs nothing is still answered.
    assert made.step("<add>1+1</add>").observation == "<information>2"
    assert (made.facts()["cost"], made.facts()["calls"]) == (4.0, 3.0)


def test_arguments_by_name_are_held_against_the_tool():
    made = tools(protocol=JsonCalls())

    def said(arguments):
        call = f'{{"name": "add", "arguments": {arguments}}}'
        return made.step(f"<tool_call>{call}</tool_call>").observation

    assert said('{"query": "1+1"}') == "<tool_response>2"
    assert said('{"text": "1+1"}').startswith("<tool_response>error: add: ")
    assert made.facts()["tool_errors"] == 1.0
    # A tool is given what JSON holds; what it cannot take is its own to refuse.
    assert made.step("That is 2.").done


def test_parts_may_be_described():
    made = Tools(
        tools={"add": Unbuilt("components.tool.Calculator", {})},
        protocol=Unbuilt("rlcomp.episodes.tool_protocol.Tags", {"before": "=", "after": "."}),
    )

    assert made.step("<add>1+1</add>") == Turn(observation="=2", closing=".")


def test_notes_are_searched_for_the_answer():
    made = tools(notes="note")
    for action in ["<note>twelve</note><phone>ann</phone>", "<note>is 12</note><answer>1</answer>"]:
        assert made.facts()["notes_hold_answer"] == 0.0
        made.step(action)

    assert (made.facts()["note_words"], made.facts()["notes_hold_answer"]) == (3.0, 1.0)
    other = tools(notes="note")
    other.step("<note>120</note><phone>ann</phone>")  # 12 is no word of it; a tool's 12 is no note
    assert other.facts()["notes_hold_answer"] == 0.0
    assert "note_words" not in tools().facts()


def test_tools_are_closed():
    Phone.closed = 0
    tools().close()

    assert Phone.closed == 1


def test_what_cannot_work_is_refused():
    with pytest.raises(ConfigError, match="tools is empty"):
        Tools(tools={})
    with pytest.raises(ConfigError, match=r"prices names 'phones'; did you mean 'phone'"):
        tools(prices={"phones": 1.0})
    with pytest.raises(ConfigError, match="need tags of their own"):
        tools(protocol=Tags(opening="<", closing=">"))


def test_a_result_is_cut_before_it_is_looked_at():
    class Long:
        def __call__(self, query):
            return "ab" * 1_000_000

    made = tools(tools={"long": Long})

    assert len(made.step("<long></long>").observation) == len("<information>") + 100_000


def add(a: int, b: int) -> int:
    return a + b


def test_a_function_is_a_tool_as_it_is():
    described = {
        "add": Unbuilt(f"{__name__}.add", {}),
        "more": Unbuilt(f"{__name__}.add", {"b": 5}),
    }
    agent = tools(tools=described, protocol=JsonCalls())
    call = '<tool_call>{{"name": "{}", "arguments": {}}}</tool_call>'

    assert "7" in agent.step(call.format("add", '{"a": "3", "b": 4}')).observation
    assert "8" in agent.step(call.format("more", '{"a": 3}')).observation
    assert (
        "error: a: invalid literal"
        in agent.step(call.format("add", '{"a": "x", "b": 4}')).observation
    )
    assert (
        "missing a required argument: 'b'" in agent.step(call.format("add", '{"a": 3}')).observation
    )


def test_what_cannot_be_called_is_no_tool():
    with pytest.raises(
        ConfigError, match="the tool n is 3, which cannot be called: must be a func"
    ):
        tools(tools={"n": lambda: 3})


class Annotated:
    """A class that says what it is called with."""

    def __call__(self, query: str, times: "int" = 1, *rest: str, sure: bool = True) -> str:
        del rest, sure
        return query.upper() * times


def shout(name: str, louder: float = 1.0, times: int = 1) -> str:
    return name.upper() * times + "!" * int(louder)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("add", '{"query": 5}', "query must be a text, not 5"),
        ("add", '{"query": ["1"]}', "query must be a text, not ['1']"),
        ("add", '{"query": null}', "query must be a text, not None"),
        ("said", '{"query": "a", "times": [2]}', "times must be a whole number, not [2]"),
        ("said", '{"query": "a", "times": true}', "times must be a whole number, not True"),
        ("said", '{"query": "a", "sure": 1}', "sure must be true or false, not 1"),
        ("shout", '{"name": {"a": 1}}', "name must be a text, not {'a': 1}"),
        ("shout", '{"name": "a", "louder": []}', "louder must be a number, not []"),
        ("shout", '{"name": "a", "times": 1.5}', "times must be a whole number, not 1.5"),
    ],
)
def test_a_call_of_another_kind_is_wrong_and_breaks_no_episode(name, arguments, told):
    # A policy that can break its episode is rid of those that it would lose.
    parts = {"add": Calculator, "said": Annotated, "shout": Unbuilt(f"{__name__}.shout", {})}
    made = Tools(tools=parts, protocol=JsonCalls())

    turn = made.step(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>')

    assert turn.observation == f"<tool_response>error: {told}"
    assert made.facts()["tool_errors"] == 1.0


def test_a_call_of_the_annotated_kind_is_made():
    parts = {"said": Annotated, "shout": Unbuilt(f"{__name__}.shout", {})}
    made = Tools(tools=parts, protocol=JsonCalls())
    calls = [
        '{"name": "said", "arguments": {"query": "a", "times": 2, "sure": false}}',
        '{"name": "shout", "arguments": {"name": "a", "louder": 2, "times": "3"}}',
    ]

    told = [made.step(f"<tool_call>{call}</tool_call>").observation for call in calls]

    assert told == ["<tool_response>AA", "<tool_response>AAA!!"]

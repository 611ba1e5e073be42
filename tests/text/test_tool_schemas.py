"""Tools as JSON schemas, and chat templates that are told of them."""

import json
from functools import partial

import pytest

from components.tool import Calculator
from rlcomp.arguments import Unbuilt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.prompt import NO_OBSERVATION
from rlcomp.interfaces.tool import FunctionTool
from rlcomp.text.chat import ChatPrompt
from rlcomp.text.tool_schemas import tool_schemas


def weather(city: str, days: "int" = 1, *more: str, unit: str = "C", exact: bool) -> str:
    """The weather of a city.

    More about it.
    """


class Index:
    """Finds documents."""

    def __init__(self, *, corpus):
        raise AssertionError("an index is expensive")

    def __call__(self, query: str, k: float, tags: list, where: dict, other) -> str: ...


def parameters(properties, required):
    typed = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": typed, "required": required}


def schema(name, description, *args):
    function = {"name": name, "description": description, "parameters": parameters(*args)}
    return {"type": "function", "function": function}


WEATHER = {"city": "string", "days": "integer", "exact": "boolean"}


def test_a_function_is_described_by_its_signature_and_first_line(importable):
    part = Unbuilt(importable(weather), {})

    assert tool_schemas({"sky": part}) == [
        schema("sky", "The weather of a city.", WEATHER, ["city", "exact"])
    ]


def test_arguments_set_in_the_config_are_left_out(importable):
    (result,) = tool_schemas({"sky": Unbuilt(importable(weather), {"exact": True, "unit": "F"})})

    assert [*result["function"]["parameters"]["properties"]] == ["city", "days"]


def test_a_class_is_described_by_its_call_and_not_built(importable):
    part = Unbuilt(importable(Index), {"corpus": "none"})

    assert tool_schemas({"search": part}) == [
        schema(
            "search",
            "Finds documents.",
            {
                "query": "string",
                "k": "number",
                "tags": "array",
                "where": "object",
                "other": "string",
            },
            ["query", "k", "tags", "where", "other"],
        )
    ]


def test_a_callable_tool_is_described_by_its_result():
    result = tool_schemas({"sum": Calculator, "sky": partial(FunctionTool, weather)})

    assert result[0]["function"]["parameters"] == parameters({"query": "string"}, ["query"])
    assert result[0]["function"]["description"].startswith(
        "Tool that returns the exact value of an expression"
    )
    assert result[1] == schema("sky", "The weather of a city.", WEATHER, ["city", "exact"])


def test_a_template_lists_tools_in_prompts_and_demonstrations(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("qwen3"), tools={"sum": Calculator})
    expected = json.dumps(tool_schemas({"sum": Calculator})[0])

    (asked,) = prompt.render(["1+1?"], [{}])
    (shown,) = prompt.demonstrations(["1+1?"], ["2"], [{}])

    assert f"<tools>\n{expected}\n</tools>" in asked
    text = prompt.tokenizer.decode(shown.ids)
    assert text.startswith(asked)
    assert not any(shown.trained[: len(prompt.encode(["1+1?"], [{}])[0])])


@pytest.mark.filterwarnings("ignore:.*rewrites the thought of a turn when")
def test_an_episode_opens_with_the_same_ids(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("qwen3"), tools={"sum": Calculator})

    (dialogue,) = prompt.dialogues(["1+1?"], [{}])

    assert dialogue.opening(NO_OBSERVATION) == prompt.encode(["1+1?"], [{}])[0]


def test_tools_of_a_conversation_replace_those_of_the_environment(chat_tokenizer):
    prompt = ChatPrompt(tokenizer=chat_tokenizer("qwen3"), tools={"sum": Calculator})
    held = {"messages": [{"role": "user", "content": "?"}], "tools": [{"name": "own"}]}

    (asked,) = prompt.render(["?"], [{"conversation": held}])

    assert '<tools>\n{"name": "own"}\n</tools>' in asked
    assert "expression" not in asked


def test_a_template_that_leaves_tools_out_raises(chat_tokenizer):
    with pytest.raises(ConfigError, match=r"prompt\.tools: .* leaves tools out: .*prompt\.system"):
        ChatPrompt(tokenizer=chat_tokenizer("gemma"), tools={"sum": Calculator})

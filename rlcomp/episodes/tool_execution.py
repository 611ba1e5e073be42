"""Execution of tool calls: methods of an object as tools, and all calls of a turn."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlcomp.episodes.tool_calls import ToolCall
from rlcomp.episodes.tool_protocol import JsonCalls, join_results
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.tool import ToolError, check_kinds

Methods = Mapping[str, Callable[..., Any]]


def public_methods(instance: object) -> dict[str, Callable[..., Any]]:
    """Return the public methods of an object by name.

    The function reads their names from the class, so that no property is evaluated.

    Raises:
        ConfigError: a method is asynchronous.
    """
    members = inspect.getmembers(type(instance), predicate=inspect.isfunction)
    methods = {name: getattr(instance, name) for name, _ in members if not name.startswith("_")}
    for name, method in methods.items():
        if inspect.iscoroutinefunction(method):
            raise ConfigError(
                f"{type(instance).__name__}.{name} is asynchronous: wrap it in a synchronous method"
            )
    return methods


def bind(tool: Callable[..., Any], call: ToolCall) -> inspect.BoundArguments:
    """Bind the arguments of a call to the parameters of a tool.

    Raises:
        ToolError: the arguments do not fit the signature.
    """
    try:
        # With ``**kwargs``, an argument ``self`` fits the signature but not the call.
        if inspect.ismethod(tool):
            signature = inspect.signature(tool.__func__)
            signature.bind(tool.__self__, *call.positional, **call.arguments)
        return inspect.signature(tool).bind(*call.positional, **call.arguments)
    except TypeError as error:
        raise ToolError(f"{call.name}: {error}") from error


def call_method(methods: Methods, call: ToolCall) -> tuple[str, bool]:
    """Return the result of a method, and whether the call failed.

    An unknown tool, wrong arguments, and a ValueError or ToolError of the method become the result;
    any other exception is a failure of the environment and is raised.
    """
    try:
        if call.name not in methods:
            raise ToolError(f"there is no tool {call.name!r}: {', '.join(methods)}")
        bound = bind(methods[call.name], call)
        check_kinds(bound)
        return str(methods[call.name](*bound.args, **bound.kwargs)), False
    except (ValueError, ToolError) as error:
        return f"Error: {error}", True


def schema_lines(methods: Methods) -> str:
    """Return JSON schemas, one per line, from annotations and docstrings, as for chat templates."""
    from transformers.utils import get_json_schema

    schemas = [get_json_schema(method) for method in methods.values()]
    return "".join(json.dumps(schema, ensure_ascii=False) + "\n" for schema in schemas)


class ToolCallExecutor:
    """Executor of the calls of a turn, with results in ``<tool_response>`` tags and counts.

    Args:
        execute: executes a call; returns the result and whether it failed.
    """

    def __init__(self, execute: Callable[[ToolCall], tuple[str, bool]]) -> None:
        self.execute = execute
        self.calls = self.failed = 0

    def turn(self, calls: Sequence[ToolCall] | str) -> Turn:
        """Execute calls and return their results as a turn.

        Args:
            calls: one or more calls; or a text with the fault of malformed calls, which becomes the
                result and counts as failed.
        """
        results = [calls] if isinstance(calls, str) else [self._result(call) for call in calls]
        self.failed += isinstance(calls, str)
        observation, closing = join_results(JsonCalls(), results)
        return Turn(observation=observation, closing=closing)

    def _result(self, call: ToolCall) -> str:
        result, failed = self.execute(call)
        self.calls += 1
        self.failed += failed
        return result

    def facts(self) -> Mapping[str, float]:
        """Return the number of executed ``calls``, and of ``failed`` calls and malformed turns."""
        return {"calls": float(self.calls), "failed": float(self.failed)}

"""Simulated service: functions over a state, called by name with checked arguments."""

from __future__ import annotations

import copy
import inspect
import json
import typing
from collections.abc import Mapping
from typing import Any

from rlcomp.arguments import problem
from rlcomp.episodes.tool_calls import ToolCall

Result = dict[str, Any]


class Refused(ValueError):
    """Refusal of a service, with the reason as its message."""


class Service:
    """Service whose public methods are its functions, which change ``state``.

    Attributes:
        state: values that JSON can hold; equal states are equal worlds.
    """

    state: dict[str, Any]

    def functions(self) -> dict[str, typing.Callable[..., Result]]:
        """Return the functions by name."""
        methods = inspect.getmembers(type(self), predicate=inspect.isfunction)
        own = [
            name for name, _ in methods if not name.startswith("_") and name not in vars(Service)
        ]
        return {name: getattr(self, name) for name in own}

    def snapshot(self) -> object:
        """Return all that answers depend on, for comparison: the state and the place in it."""
        return copy.deepcopy(self.state)


def call_function(functions: Mapping[str, typing.Callable[..., Result]], call: ToolCall) -> Result:
    """Return the answer of a function, ``{"error": ...}`` if it is missing or refuses."""
    try:
        if call.name not in functions:
            raise Refused(f"there is no function {call.name!r}")
        function = functions[call.name]
        arguments = _bound(function, call)
        result = function(**arguments)
        json.dumps(result, allow_nan=False)
    except Refused as error:
        return {"error": str(error)}
    except (ArithmeticError, ValueError) as error:
        return {"error": f"this cannot be computed: {error}"}
    return result


def _bound(function: typing.Callable[..., Result], call: ToolCall) -> dict[str, Any]:
    try:
        bound = inspect.signature(function).bind(*call.positional, **call.arguments).arguments
    except TypeError as error:
        raise Refused(f"{call.name}: {error}") from error
    hints = typing.get_type_hints(function)
    for name, value in bound.items():
        if fault := problem(hints[name], value):
            raise Refused(f"{call.name}: {name} is {value!r:.60}: {fault}")
    return dict(bound)

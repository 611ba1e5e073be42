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


class ServiceError(ValueError):
    """Failure of a call; its message is the answer of the service."""


class Service:
    """Simulated service: a subclass's public methods are its functions, which change ``state``.

    Attributes:
        state: JSON values. Two services with equal states are judged equal.
    """

    state: dict[str, Any]

    def functions(self) -> dict[str, typing.Callable[..., Result]]:
        """Return the service's functions by name."""
        methods = inspect.getmembers(type(self), predicate=inspect.isfunction)
        return {
            name: getattr(self, name)
            for name, _ in methods
            if not name.startswith("_") and name not in vars(Service)
        }

    def snapshot(self) -> object:
        """Return a copy of everything that answers depend on, for comparison."""
        return copy.deepcopy(self.state)


def call_function(functions: Mapping[str, typing.Callable[..., Result]], call: ToolCall) -> Result:
    """Return the answer of a function, or ``{"error": message}`` if the call fails."""
    try:
        if call.name not in functions:
            raise ServiceError(f"there is no function {call.name!r}")
        function = functions[call.name]
        result = function(**_bind_arguments(function, call))
        json.dumps(result, allow_nan=False)
    except ServiceError as error:
        return {"error": str(error)}
    except (ArithmeticError, ValueError) as error:
        return {"error": f"this cannot be computed: {error}"}
    return result


def _bind_arguments(function: typing.Callable[..., Result], call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call by name, checked against the function's annotations."""
    try:
        arguments = inspect.signature(function).bind(*call.positional, **call.arguments).arguments
    except TypeError as error:
        raise ServiceError(f"{call.name}: {error}") from error
    hints = typing.get_type_hints(function)
    for name, value in arguments.items():
        if fault := problem(hints[name], value):
            raise ServiceError(f"{call.name}: {name} is {value!r:.60}: {fault}")
    return dict(arguments)

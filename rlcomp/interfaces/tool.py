"""Tool interface: what answers a call of an agent, in text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from rlcomp.interfaces.task import Example


class ToolError(Exception):
    """The call was wrong (a bad query, a program's error): its message is told to the policy.

    Any other exception is the tool's own failure, and the episode becomes invalid.
    """


# What an argument is that a tool annotates so; JSON's true is no number.
_KINDS: Mapping[type, tuple[str, tuple[type, ...]]] = {
    str: ("a text", (str,)),
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    list: ("a list", (list,)),
    dict: ("an object", (dict,)),
}


def check_kinds(bound: inspect.BoundArguments) -> None:
    """Refuse arguments that are not of the plain kind that a tool's annotations name.

    Else a policy whose calls hold any JSON could have a tool fail, and so be rid of an episode.

    Raises:
        ToolError: names the argument.
    """
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        # Annotations may be texts, and some cannot be hashed.
        kind = next((one for one in _KINDS if parameter.annotation in (one, one.__name__)), None)
        if kind is None or parameter.kind.name.startswith("VAR_"):
            continue
        told, fitting = _KINDS[kind]
        if not isinstance(value, fitting) or (isinstance(value, bool) and kind is not bool):
            raise ToolError(f"{name} must be {told}, not {value!r:.60}")


class Tool(Protocol):
    """What answers a call. An object for each episode: it may remember what it was asked.

    What is expensive and the same for all episodes (an index) is kept by the tool's module.
    """

    def __call__(self, query: str) -> str:
        """Answer a call; "" where nothing was found.

        Raises:
            ToolError: the call was wrong.
        """
        ...


class FunctionTool:
    """Tool of a plain function: texts become the numbers its annotations ask for, its result text.

    ``add(a: int, b: int) -> int`` is told ``{"a": "3", "b": 4}``, and answers ``7``.

    Args:
        function: is called with what the policy writes.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.__signature__ = inspect.signature(function, eval_str=True)

    def __call__(self, *values: object, **named: object) -> str:
        """Call it.

        Raises:
            ToolError: an argument is not of the kind that is asked for.
        """
        bound = self.__signature__.bind(*values, **named)
        for name, value in bound.arguments.items():
            kind = self.__signature__.parameters[name].annotation
            if kind in (int, float) and isinstance(value, str):
                try:
                    bound.arguments[name] = kind(value)
                except ValueError as error:
                    raise ToolError(f"{name}: {error}") from error
        check_kinds(bound)
        return str(self.function(*bound.args, **bound.kwargs))


@runtime_checkable
class KnowsExample(Protocol):
    """Interface of tools that are told the example of their episode before the first call."""

    def begin(self, example: Example) -> None:
        """Take what the tool needs of the example's columns."""
        ...

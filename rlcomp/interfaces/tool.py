"""Tool interface: answers a call of an agent, in text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from rlcomp.interfaces.task import Example


class ToolError(Exception):
    """Error of a call (a bad query, a program's error); the policy sees its message.

    Any other exception is a failure of the tool, and the episode becomes invalid.
    """


# By annotation: the requirement in words, and the accepted types. JSON's true is not a number.
_TYPES: Mapping[type, tuple[str, tuple[type, ...]]] = {
    str: ("a text", (str,)),
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    list: ("a list", (list,)),
    dict: ("an object", (dict,)),
}


def check_kinds(bound: inspect.BoundArguments) -> None:
    """Refuse arguments that do not match the plain types in a tool's annotations.

    Otherwise a policy could make a tool fail by odd JSON, and so discard an episode.

    Raises:
        ToolError: the message names the argument.
    """
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        # Annotations may be texts, and some cannot be hashed.
        required = next((t for t in _TYPES if parameter.annotation in (t, t.__name__)), None)
        if required is None or parameter.kind.name.startswith("VAR_"):
            continue
        requirement, accepted = _TYPES[required]
        if not isinstance(value, accepted) or (isinstance(value, bool) and required is not bool):
            raise ToolError(f"{name} must be {requirement}, not {value!r:.60}")


class Tool(Protocol):
    """Tool that answers calls; a new object for each episode, so that it may keep a history.

    The tool's module keeps expensive data that all episodes share (an index).
    """

    def __call__(self, query: str) -> str:
        """Answer a call; an empty text if there is no result.

        Raises:
            ToolError: the call was wrong.
        """
        ...


class FunctionTool:
    """Tool from a plain function: texts become annotated numbers, and the result becomes a text.

    ``add(a: int, b: int) -> int`` receives ``{"a": "3", "b": 4}``, and answers ``7``.

    Args:
        function: is called with the policy's arguments.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.__signature__ = inspect.signature(function, eval_str=True)

    def __call__(self, *values: object, **named: object) -> str:
        """Call the function.

        Raises:
            ToolError: an argument has another type than its annotation.
            TypeError: the arguments do not fit the parameters of the function.
        """
        bound = self.__signature__.bind(*values, **named)
        for name, value in bound.arguments.items():
            annotation = self.__signature__.parameters[name].annotation
            if annotation in (int, float) and isinstance(value, str):
                try:
                    bound.arguments[name] = annotation(value)
                except ValueError as error:
                    raise ToolError(f"{name}: {error}") from error
        check_kinds(bound)
        return str(self.function(*bound.args, **bound.kwargs))


@runtime_checkable
class KnowsExample(Protocol):
    """Interface of tools that receive the example of their episode before the first call."""

    def begin(self, example: Example) -> None:
        """Read the tool's inputs from the example's columns."""
        ...

"""JSON schemas of tools, as inputs of chat templates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial

from rlcomp.arguments import Unbuilt
from rlcomp.interfaces.tool import FunctionTool, Tool
from rlcomp.workers.function_call import load

Schema = dict[str, object]

_TYPES: Mapping[object, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_NAMED = {kind.__name__: name for kind, name in _TYPES.items() if isinstance(kind, type)}
_OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def tool_schemas(tools: Mapping[str, Callable[..., Tool] | Unbuilt]) -> list[Schema]:
    """Return schemas of tools by their signatures: names, types and required parameters.

    The description is the first line of the docstring of the class or function. An ``Unbuilt`` tool
    is described by its class and not built: a search tool would load its index.

    Examples:
        >>> schema = tool_schemas({"add": Unbuilt("operator.add", {})})[0]
        >>> schema["function"]["name"], schema["function"]["parameters"]["required"]
        ('add', ['a', 'b'])
    """
    return [_schema(name, *_documented_signature(part)) for name, part in tools.items()]


def _documented_signature(part: Callable[..., Tool] | Unbuilt) -> tuple[object, inspect.Signature]:
    """Return the object whose docstring describes the tool, and its signature."""
    if not isinstance(part, Unbuilt):
        tool = part()
        documented = tool.function if isinstance(tool, FunctionTool) else type(tool)
        return documented, inspect.signature(tool)
    target = load(part.target, None)
    if not inspect.isclass(target):
        return target, inspect.signature(partial(target, **part.arguments))
    whole = inspect.signature(target.__call__)
    return target, whole.replace(parameters=[*whole.parameters.values()][1:])


def _schema(name: str, documented: object, signature: inspect.Signature) -> Schema:
    # Arguments set in the config (keyword-only, with a default) are no arguments of a call.
    parameters = {
        key: parameter
        for key, parameter in signature.parameters.items()
        if parameter.kind not in _OPEN_ENDED
        and not (
            parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
        )
    }
    required = [
        key for key, parameter in parameters.items() if parameter.default is parameter.empty
    ]
    properties = {
        key: {"type": _type(parameter.annotation)} for key, parameter in parameters.items()
    }
    function = {
        "name": name,
        "description": (inspect.getdoc(documented) or name).partition("\n")[0],
        "parameters": {"type": "object", "properties": properties, "required": required},
    }
    return {"type": "function", "function": function}


def _type(annotation: object) -> str:
    """Return the JSON type of an annotation (a type or its name); ``string`` for any other one."""
    names = _NAMED if isinstance(annotation, str) else _TYPES
    return next((name for kind, name in names.items() if kind == annotation), "string")

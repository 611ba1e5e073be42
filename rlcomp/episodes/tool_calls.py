"""Strict reader of the tool calls of a turn: JSON in tags, or Python's notation."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from rlcomp.verify.tool_calls import (
    CLOSE,
    MOST_CALLS,
    OPEN,
    CallError,
    json_call,
    json_value,
    outside_calls,
    tagged_calls,
)

# Most characters of one call in JSON, or of all calls in Python's notation.
_LONGEST = 10_000


class ToolCall(NamedTuple):
    """A call of a tool.

    Attributes:
        name: name of the tool, perhaps with dots.
        arguments: values of JSON types, by name.
        positional: arguments without a name; they come first; JSON calls have none.
    """

    name: str
    arguments: dict[str, Any]
    positional: tuple[Any, ...] = ()


def parse_calls(text: str) -> list[ToolCall] | str:
    """Parse the calls of a turn, each one JSON object in its own tags.

    ``<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>``; ``arguments`` may be named
    ``parameters``, or be left out. Text around the tags is ignored.

    Args:
        text: the text of the turn, with the tag that ended it.

    Returns:
        The calls in order, an empty list without tags; or the first fault as a text for the
        author. Besides malformed tags and JSON, faults are more than 16 calls, a call of more than
        10,000 characters, NaN, a duplicate name, values nested more than 32 deep, and other entries
        of a call.

    Examples:
        >>> parse_calls('I add. <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
        [ToolCall(name='add', arguments={'a': 1}, positional=())]
        >>> parse_calls("<tool_call>add(a=1)</tool_call>")
        'call 1 is not JSON: Expecting value: line 1 column 1 (char 0)'
    """
    pieces = tagged_calls(text)
    before, *behind = outside_calls(text, pieces)
    if CLOSE in before:
        return f"{CLOSE} without {OPEN}"
    if len(pieces) > MOST_CALLS:
        return f"{len(pieces)} calls: at most {MOST_CALLS} are allowed in a turn"
    calls = []
    for number, (piece, after) in enumerate(zip(pieces, behind, strict=True), start=1):
        if piece.body is None or CLOSE in after:
            return f"call {number} must stand between {OPEN} and one {CLOSE}"
        call = _read(f"call {number}", piece.body, json_call)
        if isinstance(call, str):
            return call
        calls.append(ToolCall(*call))
    return calls


def parse_python_calls(text: str) -> list[ToolCall] | str:
    """Parse the calls of a turn in Python's notation: ``f(a=1)``, or a list of them.

    No code is evaluated: arguments are literals, positional or by name.

    Args:
        text: the calls and nothing else.

    Returns:
        The calls in order; or a fault as a text for the author. The limits are the same as for
        :func:`parse_calls`, but the 10,000 characters are for the whole text.

    Examples:
        >>> parse_python_calls("[cd(folder='x'), sort('a.txt')]")  # doctest: +NORMALIZE_WHITESPACE
        [ToolCall(name='cd', arguments={'folder': 'x'}, positional=()),
         ToolCall(name='sort', arguments={}, positional=('a.txt',))]
        >>> parse_python_calls("cd(folder=here)")
        'call 1: the argument here is no literal'
    """
    entries = _read("the turn", text, _python_entries)
    if isinstance(entries, str):
        return entries
    if len(entries) > MOST_CALLS:
        return f"{len(entries)} calls: at most {MOST_CALLS} are allowed in a turn"
    calls = []
    for number, entry in enumerate(entries, start=1):
        call = _read(f"call {number}", entry, _python_call)
        if isinstance(call, str):
            return call
        calls.append(call)
    return calls


def _read(name: str, source: Any, reader: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """Return what a reader returns for a source, or the fault of the source as a text."""
    try:
        if isinstance(source, str) and len(source) > _LONGEST:
            raise CallError(f" has {len(source)} characters: at most {_LONGEST} are allowed")
        return reader(source)
    except CallError as error:
        return f"{name}{error}"
    except (RecursionError, MemoryError):
        return f"{name} is nested too deeply"


def _python_entries(text: str) -> list[ast.expr]:
    try:
        with warnings.catch_warnings():  # Python warns of the policy's invalid escapes
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise CallError(" is no call as in f(a=1), and no list of them") from error
    return tree.elts if isinstance(tree, ast.List) else [tree]


def _python_call(entry: ast.expr) -> ToolCall:
    if not isinstance(entry, ast.Call):
        raise CallError(" must be a call, as in f(a=1)")
    arguments: dict[str, Any] = {}
    for keyword in entry.keywords:
        if keyword.arg is None:
            raise CallError(": arguments must stand alone, without **")
        if keyword.arg in arguments:
            raise CallError(f": the argument {keyword.arg} is there twice")
        arguments[keyword.arg] = _literal(keyword.value)
    return ToolCall(_dotted_name(entry.func), arguments, tuple(map(_literal, entry.args)))


def _dotted_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted_name(node.value)}.{node.attr}"
    if not isinstance(node, ast.Name):
        raise CallError(": a tool must be called by its name")
    return node.id


def _literal(node: ast.expr) -> Any:  # noqa: ANN401
    try:
        return json_value(ast.literal_eval(node))
    except (ValueError, TypeError) as error:  # TypeError: a list in a set, or as a key
        if isinstance(error, CallError):
            raise
        raise CallError(f": the argument {ast.unparse(node):.60} is no literal") from error

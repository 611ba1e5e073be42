"""Readers of the tool calls in a response."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Call = tuple[str, dict[str, object]]

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_SPACE = re.compile(r"[ \t\n\r]*")
# Most calls of one turn.
MOST_CALLS = 16
# Longer calls are refused: no tool needs them, and parsers are slow on them.
_LONGEST = 10_000
# Most levels of lists and mappings in an argument.
_DEEPEST = 32
_DECODER = json.JSONDecoder()


class TaggedText(NamedTuple):
    """Text between a pair of tags.

    Attributes:
        body: the text without the tags; None if there is no closing tag.
        start: index of the opening tag in the text.
        end: index after the closing tag.
    """

    body: str | None
    start: int
    end: int


def tagged_calls(text: str) -> list[TaggedText]:
    """Return the texts between ``<tool_call>`` tags, in order.

    A JSON value ends where its decoder ends, so that a tag within one of its strings is text. Any
    other body ends at the next closing tag, unless an opening tag comes first.

    Examples:
        >>> [call.body for call in tagged_calls('<tool_call>"</tool_call>"</tool_call>')]
        ['"</tool_call>"']
        >>> tagged_calls("<tool_call>{}")
        [TaggedText(body=None, start=0, end=11)]
    """
    calls = list[TaggedText]()
    while (start := text.find(OPEN, calls[-1].end if calls else 0)) >= 0:
        inside = start + len(OPEN)
        end = _json_end(text, inside)
        if end is None:
            following = text.find(OPEN, inside)
            end = text.find(CLOSE, inside, following if following >= 0 else len(text))
        if end < 0:
            calls.append(TaggedText(None, start, inside))
        else:
            calls.append(TaggedText(text[inside:end], start, end + len(CLOSE)))
    return calls


def _json_end(text: str, start: int) -> int | None:
    """Return the index of the closing tag after a JSON value; None without such a value."""
    piece = text[start : start + _LONGEST + len(CLOSE) + 1]
    try:
        _, end = _DECODER.raw_decode(piece, _skip_space(piece, 0))
    except (ValueError, RecursionError, MemoryError):
        return None
    end = _skip_space(piece, end)
    return start + end if piece.startswith(CLOSE, end) else None


def _skip_space(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    return space.end() if space else place


def ends_in_string(text: str) -> bool:
    """Return whether a text ends within a string of a call's JSON; a tag there does not count.

    Examples:
        >>> ends_in_string('<tool_call>{"name": "</tool_call>')
        True
        >>> ends_in_string('<tool_call>{"name": "f"}</tool_call>')
        False
    """
    start = text.find(OPEN)
    while start >= 0:
        inside = start + len(OPEN)
        try:
            _, end = _DECODER.raw_decode(text, _skip_space(text, inside))
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated string") and len(text) - inside <= _LONGEST:
                return True
            end = text.find(CLOSE, inside)
        except (ValueError, RecursionError, MemoryError):
            end = text.find(CLOSE, inside)
        start = text.find(OPEN, end) if end >= 0 else -1
    return False


def outside_calls(text: str, calls: Sequence[TaggedText]) -> list[str]:
    """Return the texts before, between and after the calls of a text.

    Examples:
        >>> text = "a<tool_call>1</tool_call>b"
        >>> outside_calls(text, tagged_calls(text))
        ['a', 'b']
    """
    ends, starts = [0, *(call.end for call in calls)], [*(call.start for call in calls), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


def arguments_of(call: Mapping[str, object]) -> object:
    """Return the ``arguments`` or ``parameters`` of a JSON call.

    None if it has both keys; an empty mapping if it has neither.

    Examples:
        >>> arguments_of({"name": "f", "parameters": {"a": 1}})
        {'a': 1}
    """
    if "arguments" in call and "parameters" in call:
        return None
    return call.get("arguments", call.get("parameters", {}))


class CallError(ValueError):
    """Error of a malformed call; the message continues the name of the call."""


def json_call(body: str) -> Call:
    """Return the name and the arguments of a call written as one JSON object.

    Args:
        body: ``{"name": ..., "arguments": {...}}``; ``arguments`` may be named ``parameters``, or
            be left out.

    Raises:
        CallError: the text is no such object, has other keys, holds NaN, a duplicate name, a number
            that is too long or a lone surrogate, or is nested more than 32 deep.
        RecursionError: the text is nested too deeply for the parser.
    """
    return _call_of(_strict_json(body))


def _call_of(entry: object) -> Call:
    if not isinstance(entry, dict) or not entry.keys() <= {"name", "arguments", "parameters"}:
        raise CallError(' must be one object with "name" and "arguments", and nothing else')
    name, arguments = entry.get("name"), arguments_of(entry)
    if not isinstance(name, str) or not name:
        raise CallError(': "name" must be the name of a tool')
    if not isinstance(arguments, dict):
        raise CallError(': "arguments" must be an object')
    return json_value(name), json_value(arguments)


def _strict_json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, UnicodeError) as error:
        raise CallError(f" is not JSON: {error}") from error
    except ValueError as error:
        if isinstance(error, CallError):
            raise
        raise CallError(f" holds a number that is too long: {error}") from error


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise CallError(" is not JSON: a name is there twice in one object")
    return entries


def _refuse_constant(name: str) -> None:
    raise CallError(f" is not JSON: {name} is not a number")


def json_value(value: object, depth: int = 0) -> Any:  # noqa: ANN401
    """Return a value of JSON types, with tuples as lists.

    Raises:
        CallError: the value holds a value of another type, a key that is no text, a float that
            is infinite or NaN, or a lone surrogate, or is nested more than 32 deep.
    """
    if depth > _DEEPEST:
        raise CallError(f" is nested more than {_DEEPEST} deep")
    if isinstance(value, dict):
        named = {json_value(key): json_value(entry, depth + 1) for key, entry in value.items()}
        if not all(isinstance(key, str) for key in named):
            raise CallError(": the keys of a mapping must be texts")
        return named
    if isinstance(value, (list, tuple)):
        return [json_value(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise CallError(" holds a number beyond what a float can")
    if isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise CallError(" holds a lone surrogate")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CallError(f" holds a {type(value).__name__}, which JSON does not know")


def read_calls(response: str) -> list[Call] | None:
    """Return the tool calls of a response, after its thought.

    None if it has none or more than 16, or if one of them cannot be read or is longer than 10,000
    characters.

    Calls are ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` (or ``parameters``), any
    number of them, read as in environments (:func:`tagged_calls`). Without tags the whole response
    is read as JSON, one such object or a list of them, or as Python calls with literal keyword
    arguments: ``[f(a=1), g()]``. JSON is read as strictly as in environments (:func:`json_call`).

    Examples:
        >>> read_calls('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
        [('f', {'a': 1})]
        >>> read_calls("[f(a=1), m.g()]")
        [('f', {'a': 1}), ('m.g', {})]
    """
    answer = response.rpartition("</think>")[2].strip()
    tagged = tagged_calls(answer)
    texts = [call.body for call in tagged] or [_strip_fence(answer)]
    if len(tagged) > MOST_CALLS or any(text and len(text) > _LONGEST for text in texts):
        return None
    if tagged and any(CLOSE in text for text in outside_calls(answer, tagged)):
        return None
    groups = [text and (_json_calls(text) or _python_calls(text)) for text in texts]
    calls = [call for group in groups for call in group or ()]
    return calls if calls and all(groups) else None


def _strip_fence(text: str) -> str:
    if not (text.startswith("```") and text.endswith("```")):
        return text
    return text[3:-3].removeprefix("json").removeprefix("python").strip()


def _json_calls(text: str) -> list[Call] | None:
    try:
        value = _strict_json(text)
        entries = value if isinstance(value, list) else [value]
        return [_call_of(_unwrap(entry)) for entry in entries]
    except (CallError, RecursionError, MemoryError):
        return None


def _unwrap(entry: object) -> object:
    """Unwrap the call in an entry of OpenAI's ``tool_calls``; return other entries unchanged."""
    wrapped = isinstance(entry, dict) and entry.keys() <= {"type", "id", "function"}
    return entry.get("function") if wrapped and isinstance(entry, dict) else entry


def _python_calls(text: str) -> list[Call] | None:
    try:
        with warnings.catch_warnings():  # Python warns of the policy's invalid escapes
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
        entries = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
        return [_python_call(entry) for entry in entries]
    # TypeError: a list in a set, or as a key
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _python_call(entry: ast.expr) -> Call:
    """Return a call with literal keyword arguments; raise ValueError for anything else."""
    if not isinstance(entry, ast.Call) or entry.args:
        raise ValueError
    arguments = {}
    for keyword in entry.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return ast.unparse(entry.func), arguments

"""Messages of a request, in the form of chat templates."""

from __future__ import annotations

import json
from typing import Any

from rlcomp.endpoint.refused import RefusedError

_ROLES = ("system", "developer", "user", "assistant", "tool")
_MOST_MESSAGES = 1000


def read_messages(messages: object) -> list[dict[str, Any]]:
    """Return messages with contents as texts and arguments of tool calls as objects.

    Raises:
        RefusedError: they are no messages, or hold parts that the policy does not read.
    """
    if not isinstance(messages, list) or not 0 < len(messages) <= _MOST_MESSAGES:
        raise RefusedError(f"messages must be a list of 1 to {_MOST_MESSAGES} messages")
    return [*map(_message, messages)]


def no_number(name: str) -> float:
    """Refuse NaN and infinity in JSON.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is no number")


def _message(message: object) -> dict[str, Any]:
    """Return a message for chat templates: contents as texts, arguments of calls as objects."""
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise RefusedError(f"a message must be an object with a role, one of {', '.join(_ROLES)}")
    fields: dict[str, Any] = {"role": message["role"], "content": _content(message.get("content"))}
    for name in ("name", "tool_call_id"):
        if message.get(name) is not None:
            fields[name] = _text(name, message[name])
    if message.get("tool_calls"):
        calls = message["tool_calls"]
        if not isinstance(calls, list):
            raise RefusedError("tool_calls must be a list")
        fields["tool_calls"] = [*map(_call, calls)]
    return fields


def _content(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {} for part in content]
        if any(part.get("type") != "text" for part in parts):
            raise RefusedError("the parts of a content must be texts: the policy reads no others")
        return "".join(_text("text", part.get("text")) for part in parts)
    return _text("content", content)


def _call(call: object) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise RefusedError("a tool call must have a function with a name and arguments")
    arguments: object = function.get("arguments", "{}")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}", parse_constant=no_number)
        except (ValueError, RecursionError) as error:
            raise RefusedError("the arguments of a tool call are not JSON") from error
    assert isinstance(call, dict)
    held = {"name": _text("name", function.get("name")), "arguments": arguments}
    return {"id": _text("id", call.get("id", "")), "type": "function", "function": held}


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise RefusedError(f"{name} is {value!r:.60}: must be a text")
    return whole_text(value)


def whole_text(text: str) -> str:
    """Check a text, and return it.

    Raises:
        RefusedError: it has half of a character.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RefusedError("a text holds half a character") from error
    return text

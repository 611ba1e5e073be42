"""Conversations of a row: checked messages with roles, split into prompt and response.

This module does not import torch, so that a bad file is reported before slow imports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlcomp.columns import CONVERSATION
from rlcomp.data.records import Row
from rlcomp.errors import DataError, nearest

Message = dict[str, object]

# The known roles. A chat template writes the role into its text, so others are refused.
_ROLES = ("system", "developer", "user", "assistant", "tool")
# Roles of the last message of a prompt.
_PROMPT_END_ROLES = ("user", "tool")
_MEDIA = ("image", "images", "audio", "audios", "video", "videos")
_TEXT_ONLY = "policies here read text only: leave the row out, or put it in words"
_THOUGHT_END = "</think>"


class Conversation(NamedTuple):
    """The messages and tools of a row.

    Attributes:
        used: the columns with the messages.
        messages: the prompt, at least one message.
        completion: the messages to imitate; empty if the row has no response.
        tools: JSON schemas of the tools.
    """

    used: tuple[str, ...]
    messages: list[Message]
    completion: list[Message]
    tools: list[Mapping[str, object]]

    @property
    def question(self) -> str:
        """The text of the prompt's last message."""
        return str(self.messages[-1]["content"])

    @property
    def response(self) -> str:
        """The text of the last message to imitate; empty if there is none."""
        return str(self.completion[-1].get("content", "")) if self.completion else ""

    @property
    def outcome(self) -> str:
        """The response without the thought in front of it."""
        has_thought = _THOUGHT_END in self.response
        return self.response.rpartition(_THOUGHT_END)[2].lstrip() if has_thought else self.response

    @property
    def source(self) -> str:
        """The prompt's messages and tools as one JSON text, the key of the held-out split."""
        return json.dumps([self.messages, self.tools], ensure_ascii=False)

    def column(self) -> dict[str, object]:
        """Return the value of the example's column ``conversation``, without empty parts."""
        parts = {"messages": self.messages, "completion": self.completion, "tools": self.tools}
        return {name: part for name, part in parts.items() if part}


def conversation_of(row: Row, prompt_field: str) -> Conversation | None:
    """Return the conversation of a row; None if its prompt is a text.

    The messages are in the column ``prompt_field``, or in ``messages`` or ``prompt`` if there is
    none. The response is the column ``completion`` (messages, or a text), or else a final
    assistant turn; a column named ``prompt`` must not end in one.

    Raises:
        DataError: a message has no known role or no text (an image, say), the last message before
            the response is not a user's or a tool's, the messages have another format, or another
            column cannot be used (tools, media, ``conversation``); the error names the row.
    """
    names = (prompt_field,) if prompt_field in row.columns else ("messages", "prompt")
    name = next((name for name in names if _is_message_list(row.columns.get(name))), None)
    if name is None:
        _check_other_formats(row, prompt_field)
        return None
    if CONVERSATION in row.columns and name != CONVERSATION:
        raise DataError(
            f"{row.place}: it has {name!r} and a column {CONVERSATION!r}, the name of the "
            f"column of messages: rename that column, or set task.prompt_field={CONVERSATION}"
        )
    for media in _MEDIA:
        if row.columns.get(media):
            raise DataError(f"{row.place}: it has {media!r}, and {_TEXT_ONLY}")
    messages, completion = _messages(row, name), list[Message]()
    response_column = row.columns.get("completion") if name != "completion" else None
    if response_column is not None:
        completion = _completion(row)
    elif name != "prompt" and messages and messages[-1]["role"] == "assistant":
        completion = [messages.pop()]
    _check_last_role(row.place, name, messages)
    used = (name, "completion") if response_column is not None else (name,)
    return Conversation(used, messages, completion, _tools(row))


def _check_other_formats(row: Row, prompt_field: str) -> None:
    """Refuse conversations in another format: they would be read as texts."""
    for name in dict.fromkeys((prompt_field, "messages", "prompt")):
        text = row.columns.get(name)
        if isinstance(text, str) and re.match(r'\s*\[\s*\{\s*"(role|content)"\s*:', text):
            from rlcomp.advice.format_hints import parsing_hint

            raise DataError(
                f"{row.place}: {name!r} is a text that holds messages as JSON, and has to be the "
                f"list itself{parsing_hint(row.place, name)}"
            )
    turns = row.columns.get("conversations")
    if _is_message_list(turns) and "from" in turns[0]:  # type: ignore[index]
        from rlcomp.advice.format_hints import sharegpt_command

        raise DataError(
            f"{row.place}: 'conversations' with 'from' and 'value' is ShareGPT's format: write "
            "'messages' with 'role' (human is user, gpt is assistant) and 'content'"
            f"{sharegpt_command(row.place)}"
        )


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_message_list(value: object) -> bool:
    return _is_list(value) and bool(value) and isinstance(value[0], Mapping)  # type: ignore[index]


def _completion(row: Row) -> list[Message]:
    value = row.columns["completion"]
    if isinstance(value, str):
        return [{"role": "assistant", "content": replace_surrogates(value)}]
    messages = _messages(row, "completion")
    if not messages or {messages[0]["role"], messages[-1]["role"]} != {"assistant"}:
        raise DataError(
            f"{row.place}: 'completion' must be a text, or messages that begin and end with the "
            "assistant's"
        )
    return messages


def _check_last_role(place: str, name: str, messages: Sequence[Message]) -> None:
    """Refuse messages that no response can follow."""
    if not messages:
        raise DataError(f"{place}: {name!r} holds no message before the assistant's last one")
    last = messages[-1]["role"]
    if last not in _PROMPT_END_ROLES:
        # A template closes an assistant's turn, so a response cannot continue it.
        raise DataError(
            f"{place}: {name!r} ends in a turn of the {last}, which has no response: end it "
            "with a user's or a tool's turn; a response to imitate goes into 'completion', or is "
            "the last one of 'messages'"
        )


def _messages(row: Row, name: str) -> list[Message]:
    value = row.columns[name]
    if not _is_list(value):
        raise DataError(f"{row.place}: column {name!r} is {value!r:.60}, not a list of messages")
    assert isinstance(value, Sequence)
    place = f"{row.place}: message"
    return [_message(f"{place} {n} of {name!r}", item) for n, item in enumerate(value, start=1)]


def _message(place: str, message: object) -> Message:
    if not isinstance(message, Mapping):
        raise DataError(f"{place} is {message!r:.60}: write {{role: user, content: ...}}")
    # A table holds every column for every message: null counts as missing.
    entries = {str(key): value for key, value in message.items() if value is not None}
    role = entries.get("role")
    if role not in _ROLES:
        hint = nearest(str(role), _ROLES)
        raise DataError(f"{place}: role is {role!r:.60}{hint}; the roles are {', '.join(_ROLES)}")
    if "content" not in entries and role == "assistant" and entries.get("tool_calls"):
        return entries
    return {**entries, "content": _content(place, entries.get("content"))}


def _content(place: str, content: object) -> str:
    if isinstance(content, str):
        return replace_surrogates(content)
    if not _is_list(content):
        raise DataError(f"{place}: content is {content!r:.60}, not a text or a list of parts")
    assert isinstance(content, Sequence)
    return "".join(_part(place, part) for part in content)


def _part(place: str, part: object) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return replace_surrogates(str(part["text"]))
    raise DataError(
        f"{place}: a part of its content is {kind or repr(part)!r:.60}, not text, and {_TEXT_ONLY}"
    )


def _tools(row: Row) -> list[Mapping[str, object]]:
    tools = row.columns.get("tools")
    if isinstance(tools, str):  # data sets of TRL hold them as JSON
        try:
            tools = json.loads(tools) if tools.strip() else None
        except (ValueError, RecursionError) as error:
            raise DataError(f"{row.place}: column 'tools' is not JSON: {error}") from error
    if tools is None:
        return []
    if not _is_list(tools) or not all(isinstance(tool, Mapping) for tool in tools):  # type: ignore[attr-defined]
        raise DataError(f"{row.place}: column 'tools' is {tools!r:.60}, not a list of JSON schemas")
    return list(tools)  # type: ignore[call-overload,no-any-return]


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates by ``?``: the batch holds UTF-8, and UTF-8 has no code for them."""
    return text.encode("utf-8", "replace").decode("utf-8")
